"""Verifies the signature of a request.

The profile (DESIGN 8, "Signatures") is RFC 9421 with ed25519 only. The key is in the request, either as
`Signature-Key: <label>=hwk;…` or as a did:key in `keyid`, and RFC 9530's Content-Digest covers the body. A wrong
signature that is meant for this node is an error: such a request never counts as unsigned.

This module has neither clock nor store. Whoever stores the signed post records its `Verified.replay_id`, so that a
signature is used only once.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Literal, TypeVar

import http_sf
import msgspec

from node.common import base64url
from node.sign import digest
from node.sign.fields import Malformed, SignatureInput, SignatureKey, read_inputs, read_keys, read_signatures
from node.sign.keys import DID_PREFIX, KeyInvalid, PublicKey
from node.sign.signature_base import SignedMessage, signature_base

T = TypeVar("T")

Components = tuple[tuple[str, str], ...]
"""Names and values of the components that a signature covers, in the order in which they were signed."""

ErrorCode = Literal["invalid_signature", "invalid_input", "invalid_key", "unsupported_algorithm"]

TAG = "relay-node"
ALGORITHM = "ed25519"
MAX_AGE = 300  # seconds since `created`
MAX_SKEW = 60  # seconds by which a client's clock may be fast or slow
REPLAY_SECONDS = MAX_AGE + 2 * MAX_SKEW
"""Longest time from the first use of a signature until it is too old, 420 s; its `replay_id` is kept for that long."""
MAX_NONCE = 128  # characters
TARGETS = frozenset(("@target-uri", "@request-target"))
"""The components that contain both path and query."""


class Verified(msgspec.Struct, frozen=True):
    """A valid signature that is meant for this node."""

    key: PublicKey
    signature: bytes
    components: Components
    params: str
    """The value of `@signature-params`."""
    replay_id: str
    """The same for every request with this signature, or with another signature of the same key and nonce."""


class InvalidSignature(Exception):
    """A signature that is meant for this node and does not verify."""

    def __init__(self, error: ErrorCode, message: str, required: tuple[str, ...] = ()) -> None:
        """`message` tells the client what to correct. `required` lists the components that must be covered."""
        super().__init__(message)
        self.error: ErrorCode = error
        self.message = message
        self._required = required

    @property
    def header(self) -> str:
        """The value of Signature-Error (draft-hardt-httpbis-signature-key-08)."""
        members: dict[str, http_sf.ItemType | http_sf.InnerListType] = {"error": http_sf.Token(self.error)}
        if self._required:
            members["required_input"] = ([(name, {}) for name in self._required], {})
        return http_sf.ser(members)


class _Candidate(msgspec.Struct, frozen=True):
    """A signature that is meant for this node, not yet checked."""

    label: str
    sent: SignatureInput
    key: PublicKey
    by_header: bool
    """Whether the key is in Signature-Key rather than in `keyid`."""


def verify(message: SignedMessage, body: bytes, now: float) -> Verified | None:
    """Return the verified signature of a request; None if it has no signature that is meant for this node.

    `now` is in seconds since 1970. If several signatures are meant for this node, all must verify, and the first is
    returned. Raises InvalidSignature.
    """
    if message.field("signature-input") is None:
        return None
    try:
        candidates = _candidates(message)
        if not candidates:
            return None
        signatures = _read(read_signatures, message, "signature", "invalid_signature")
        verified = [_verified(message, body, now, each, signatures.get(each.label, b"")) for each in candidates]
    except Malformed as error:
        raise InvalidSignature("invalid_input", str(error)) from error
    return verified[0]


def _candidates(message: SignedMessage) -> list[_Candidate]:
    """Return the signatures meant for this node: their tag is its own or absent, and their key is in the request."""
    given = read_inputs(message.field("signature-input") or "")
    inputs = {label: sent for label, sent in given.items() if sent.string("tag") in (None, TAG)}
    keys = _read(read_keys, message, "signature-key", "invalid_key") if inputs else {}
    found = [_candidate(label, sent, keys.get(label)) for label, sent in inputs.items()]
    candidates = [each for each in found if each is not None]
    strays = [label for label, key in keys.items() if key.scheme == "hwk" and label not in given]
    if strays and len(candidates) < len(inputs):
        raise InvalidSignature(
            "invalid_key", f"Signature-Key has the label {strays[0]}, Signature-Input has not; use the same"
        )
    return candidates


def _candidate(label: str, sent: SignatureInput, conveyed: SignatureKey | None) -> _Candidate | None:
    """Return the candidate of one label; None if its key is not in the request and would have to be fetched."""
    keyid = sent.params.get("keyid")
    try:
        if conveyed is not None and conveyed.scheme == "hwk":
            return _Candidate(label, sent, _inline_key(conveyed), by_header=True)
        if conveyed is None and isinstance(keyid, str) and keyid.startswith(DID_PREFIX):
            return _Candidate(label, sent, PublicKey.from_did(keyid), by_header=False)
    except KeyInvalid as error:
        raise InvalidSignature("invalid_key", str(error)) from error
    return None


def _inline_key(conveyed: SignatureKey) -> PublicKey:
    # Revisions -06 and -07 of the draft forbid alg and -08 requires it; clients of all three exist.
    kind = conveyed.string("kty"), conveyed.string("crv"), conveyed.params.get("alg", "Ed25519")
    if kind != ("OKP", "Ed25519", "Ed25519"):
        raise InvalidSignature(
            "unsupported_algorithm", 'use an ed25519 key: hwk;alg="Ed25519";kty="OKP";crv="Ed25519";x="…"'
        )
    return PublicKey.from_x(conveyed.string("x"))


def _verified(message: SignedMessage, body: bytes, now: float, candidate: _Candidate, signature: bytes) -> Verified:
    sent, key = candidate.sent, candidate.key
    names = sent.components()
    _check_coverage(names, by_header=candidate.by_header, has_body=bool(body))
    _check_times(sent, now)
    nonce = _check_strings(sent)
    _check_host(message)
    components = tuple((name, message.component(name)) for name in names)
    _check_digest(dict(components).get("content-digest"), body)
    params = sent.text()
    for signed in (components,) if message.query else _with_either_target(components):
        base = signature_base(signed, params)
        if key.verifies(base, signature):
            return Verified(key, signature, signed, params, _replay_id(key, nonce, base))
    raise InvalidSignature("invalid_signature", "this key did not make the signature over this request")


def _with_either_target(components: Components) -> Iterator[Components]:
    """Yield the components of a request without a query: with its target as it is, then with a `?` at the end.

    A server cannot tell an empty query from none, but a client whose URL ends in `?` signs the `?` (RFC 9421 §2.2.2,
    §2.2.5).
    """
    yield components
    other = tuple((name, f"{value}?" if name in TARGETS else value) for name, value in components)
    if other != components:
        yield other


def _check_coverage(names: Sequence[str], *, by_header: bool, has_body: bool) -> None:
    target = ("@target-uri",) if "@target-uri" in names else ("@authority", "@path")
    required = (
        "@method",
        *target,
        *(("content-digest",) if has_body else ()),
        *(("signature-key",) if by_header else ()),
    )
    missing = [name for name in required if name not in names]
    if missing:
        raise InvalidSignature("invalid_input", f"the signature must also cover {', '.join(missing)}", required)


def _check_times(sent: SignatureInput, now: float) -> None:
    created, expires = sent.integer("created"), sent.integer("expires")
    if created is None:
        raise Malformed("the signature parameter created is missing")
    if created < now - MAX_AGE - MAX_SKEW:
        old = f"the signature is older than {MAX_AGE} s; sign again, or correct your clock if you just did"
        raise InvalidSignature("invalid_signature", old)
    if created > now + MAX_SKEW:
        raise InvalidSignature("invalid_signature", "the signature is dated in the future; correct your clock")
    if expires is not None and expires < now:
        raise InvalidSignature("invalid_signature", "the signature has expired; sign again")


def _check_strings(sent: SignatureInput) -> str | None:
    """Check the parameters that are strings. Returns the nonce."""
    sent.string("keyid")
    if sent.string("alg") not in (None, ALGORITHM):
        raise InvalidSignature("unsupported_algorithm", f"sign with {ALGORITHM}")
    nonce = sent.string("nonce")
    if nonce is not None and not 1 <= len(nonce) <= MAX_NONCE:
        raise Malformed(f"the nonce must have 1 to {MAX_NONCE} characters")
    return nonce


def _check_host(message: SignedMessage) -> None:
    """Refuse a signature that was made for another node, since its receiver there could send it here."""
    host = message.host()
    if host is None:
        raise Malformed("the request must have exactly one Host header")
    if host != message.address.authority:
        raise InvalidSignature(
            "invalid_signature", f"this node is {message.address.authority}; send and sign that as the Host"
        )


def _check_digest(field: str | None, body: bytes) -> None:
    if field is None:
        return
    try:
        digest.check(field, body)
    except digest.DigestMismatch as error:
        raise InvalidSignature("invalid_signature", str(error)) from error
    except digest.DigestError as error:
        raise Malformed(str(error)) from error


def _read(read: Callable[[str], dict[str, T]], message: SignedMessage, name: str, error: ErrorCode) -> dict[str, T]:
    try:
        return read(message.field(name) or "")
    except Malformed as malformed:
        raise InvalidSignature(error, str(malformed)) from malformed


def _replay_id(key: PublicKey, nonce: str | None, base: bytes) -> str:
    what = b"base" + base if nonce is None else b"nonce" + nonce.encode()
    return base64url.encode(sha256(key.raw + what).digest())
