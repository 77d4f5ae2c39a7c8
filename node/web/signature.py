"""Finds and verifies the signature of a request (RFC 9421)."""

import time
from collections.abc import Callable, Collection

import msgspec

from node.common.refusal import Refused
from node.sign.proof import proof_of
from node.sign.request import InvalidSignature, verify
from node.sign.signature_base import PublicAddress, SignedMessage
from node.sign.signed import UNSIGNED, Signed
from node.web.bearer import bearer_of
from node.web.errors import RefusedWithHeaders
from node.web.http import Request

FIELDS = frozenset({b"signature-input", b"signature", b"signature-key", b"content-digest"})
"""The headers that are parsed to verify a signature."""

FIELD_COST = 6
"""Cost of one byte of these headers, in bytes of an answer (0.3 µs). 16 kB in the slowest form took 4 ms."""


class Signatures:
    """Verifies the signatures that are meant for this node."""

    def __init__(self, public_url: str, refuses_key: Callable[[str], bool]) -> None:
        """`refuses_key`: whether the operator has blocked the key with the given thumbprint."""
        self._address = PublicAddress.parse(public_url)
        self._refuses_key = refuses_key

    async def of(self, request: Request, shown: Collection[str]) -> Signed:
        """Return the verified signature; UNSIGNED if the request has none for this node.

        `shown` names the fields that the stored record will show.

        Raises RefusedWithHeaders `signature.invalid` if the signature is meant for this node and does not verify,
        Refused `client.blocked` if its key is blocked, and what `Request.body` raises.
        """
        if request.header(b"signature-input") is None:
            return UNSIGNED
        request.add_cost(FIELD_COST * sum(len(value) for name, value in request.scope["headers"] if name in FIELDS))
        body = await request.body()
        message = SignedMessage(
            method="HEAD" if request.is_head else request.method,
            address=self._address,
            path=request.scope["raw_path"].decode("latin-1"),
            query=request.scope["query_string"].decode("latin-1"),
            headers=request.scope["headers"],
        )
        try:
            verified = verify(message, body, time.time())
        except InvalidSignature as invalid:
            headers = ((b"signature-error", invalid.header.encode()),)
            raise RefusedWithHeaders("signature.invalid", headers, reason=invalid.message) from invalid
        if verified is None:
            return UNSIGNED
        if self._refuses_key(verified.key.thumbprint):
            raise Refused("client.blocked")
        proof = msgspec.json.encode(proof_of(verified, body, shown))
        return Signed(verified.key.thumbprint, proof, verified.replay_id)

    async def credentials(self, request: Request) -> tuple[str | None, str, str]:
        """Return the bearer token of a request, the signer, and the replay id of its signature. The last two are empty
        if the request is not signed.

        Raises as `of` does.
        """
        signed = await self.of(request, ())
        return bearer_of(request), signed.signer, signed.replay_id
