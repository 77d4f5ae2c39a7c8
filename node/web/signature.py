"""The signature of a request (RFC 9421), if it has one."""

import time
from collections.abc import Collection

import msgspec

from node.common.refusal import Refused
from node.sign.proof import proof_of
from node.sign.request import verify
from node.sign.signature_base import Origin
from node.sign.signed import Signed
from node.sign.verification import InvalidSignature, Unverified
from node.web.http import Request


class Signatures:
    """Verifies requests that are meant for this node."""

    def __init__(self, public_url: str) -> None:
        self._origin = Origin.parse(public_url)

    async def of(self, request: Request, shown: Collection[str]) -> Signed | None:
        """Who signed it; None for nobody. `shown` names the body's fields that the record will show.

        Raises Refused `signature.invalid` if the signature is meant for this node and wrong.
        """
        if request.header(b"signature-input") is None:
            return None
        body = await request.body()
        outcome = verify(
            method=request.method,
            path=request.scope["raw_path"].partition(b"?")[0].decode("latin-1"),
            query=request.scope["query_string"].decode("latin-1"),
            headers=request.scope["headers"],
            body=body,
            origin=self._origin,
            now=time.time(),
        )
        if isinstance(outcome, InvalidSignature):
            raise Refused("signature.invalid", reason=outcome.message, header=outcome.header)
        if isinstance(outcome, Unverified):
            return None
        proof = msgspec.json.encode(proof_of(outcome, body, shown))
        return Signed(outcome.key.thumbprint, proof, outcome.replay_id)
