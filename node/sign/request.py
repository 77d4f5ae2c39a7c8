"""Whether a request is signed, by whom, and what to say if the signature is wrong.

The profile (DESIGN 8, "Signatures"): RFC 9421 with ed25519 only; the key inside the request, either
`Signature-Key: <label>=hwk;…` or a did:key as `keyid`; the body covered by RFC 9530's
Content-Digest. A signature that is for this node and wrong is never taken for none.

Pure: no clock, no store. That a signature is used only once is for whoever stores what was signed,
under `Verified.replay_id`.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256

import msgspec

from node.sign import digest
from node.sign.fields import Malformed, SignatureInput, SignatureKey, read_inputs, read_keys, read_signatures
from node.sign.keys import DID_PREFIX, KeyInvalid, PublicKey, base64url
from node.sign.signature_base import Origin, SignedMessage, is_component, signature_base
from node.sign.verification import ErrorCode, InvalidSignature, Unverified, Verification, Verified

TAG = "relay-node"
ALGORITHM = "ed25519"
MAX_AGE = 300  # seconds since `created`
MAX_SKEW = 60  # seconds a clock may be off, either way
REPLAY_SECONDS = MAX_AGE + 2 * MAX_SKEW
"""How long a used signature can still be in time, so how long its `replay_id` is remembered."""
MAX_NONCE = 128  # characters

UNSIGNED = Unverified("the request has no Signature-Input")


class _Wrong(Exception):
    """A signature meant for us fails."""

    def __init__(self, error: ErrorCode, message: str, required: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.outcome = InvalidSignature(error, message, required)


class _Candidate(msgspec.Struct, frozen=True):
    """A signature that is meant for us, not yet checked."""

    label: str
    sent: SignatureInput
    key: PublicKey
    by_header: bool
    """The key is in Signature-Key, not in `keyid`."""


def verify(
    *,
    method: str,
    path: str,
    query: str,
    headers: Sequence[tuple[bytes, bytes]],
    body: bytes,
    origin: Origin,
    now: float,
) -> Verification:
    """Judge the signatures of a request.

    `path` and `query` are as sent, percent-encoding untouched (`raw_path`, `query_string`);
    `headers` as ASGI has them, names in lower case; `now` in seconds since 1970. If several
    signatures are meant for this node, all have to be good, and the first one signs.
    """
    if not any(name == b"signature-input" for name, _ in headers):
        return UNSIGNED
    message = SignedMessage(method, origin, path, query, headers)
    try:
        candidates = _candidates(message)
        if not candidates:
            return Unverified("no signature is for this node, with its key in the request")
        signatures = _signatures(message)
        verified = [_verified(message, body, now, each, signatures.get(each.label, b"")) for each in candidates]
    except _Wrong as wrong:
        return wrong.outcome
    except Malformed as error:
        return InvalidSignature("invalid_input", str(error))
    return verified[0]


def _candidates(message: SignedMessage) -> list[_Candidate]:
    """The signatures without a foreign tag whose key came along."""
    inputs = {
        label: sent
        for label, sent in read_inputs(message.field("signature-input") or "").items()
        if sent.string("tag") in (None, TAG)
    }
    keys: Mapping[str, SignatureKey] = _keys(message) if inputs else {}
    found = [_candidate(label, sent, keys.get(label)) for label, sent in inputs.items()]
    candidates = [each for each in found if each is not None]
    strays = [label for label, key in keys.items() if key.scheme == "hwk" and label not in inputs]
    if strays and len(candidates) < len(inputs):
        raise _Wrong("invalid_key", f"use one label: Signature-Key has {strays[0]}, Signature-Input has not")
    return candidates


def _candidate(label: str, sent: SignatureInput, conveyed: SignatureKey | None) -> _Candidate | None:
    """None if the key would have to be fetched or looked up."""
    keyid = sent.params.get("keyid")
    try:
        if conveyed is not None and conveyed.scheme == "hwk":
            return _Candidate(label, sent, _inline_key(conveyed), by_header=True)
        if conveyed is None and isinstance(keyid, str) and keyid.startswith(DID_PREFIX):
            return _Candidate(label, sent, PublicKey.from_did(keyid), by_header=False)
    except KeyInvalid as error:
        raise _Wrong("invalid_key", str(error)) from error
    return None


def _inline_key(conveyed: SignatureKey) -> PublicKey:
    # -06 and -07 of the draft forbade alg, -08 requires it: both kinds of client are about.
    kind = conveyed.string("kty"), conveyed.string("crv"), conveyed.params.get("alg", "Ed25519")
    if kind != ("OKP", "Ed25519", "Ed25519"):
        raise _Wrong("unsupported_algorithm", 'use an ed25519 key: hwk;alg="Ed25519";kty="OKP";crv="Ed25519";x="…"')
    return PublicKey.from_x(conveyed.string("x") or "")


def _verified(message: SignedMessage, body: bytes, now: float, candidate: _Candidate, signature: bytes) -> Verified:
    sent, key = candidate.sent, candidate.key
    names = sent.components()
    _check_coverage(names, by_header=candidate.by_header, has_body=bool(body))
    created, expires = _check_times(sent, now)
    nonce = _check_texts(sent)
    _check_host(message)
    components = tuple((name, message.component(name)) for name in names)
    params = sent.text()
    base = signature_base(components, params)
    _check_digest(dict(components).get("content-digest"), body)
    if not key.verifies(base, signature):
        raise _Wrong("invalid_signature", "the signature is not that of this key over this request")
    return Verified(key, signature, components, params, created, expires, _replay_id(key, nonce, base))


def _check_coverage(names: Sequence[str], *, by_header: bool, has_body: bool) -> None:
    for name in names:
        if not is_component(name):
            raise Malformed(f"{name} is not a component a request to this node can be signed with")
    target = ("@target-uri",) if "@target-uri" in names else ("@authority", "@path")
    required = (
        "@method",
        *target,
        *(("content-digest",) if has_body else ()),
        *(("signature-key",) if by_header else ()),
    )
    missing = [name for name in required if name not in names]
    if missing:
        raise _Wrong("invalid_input", f"the signature has to cover {', '.join(missing)} too", required)


def _check_times(sent: SignatureInput, now: float) -> tuple[int, int | None]:
    created, expires = sent.integer("created"), sent.integer("expires")
    if created is None:
        raise Malformed("the signature parameter created is missing")
    if created < now - MAX_AGE - MAX_SKEW:
        raise _Wrong("invalid_signature", f"the signature is older than {MAX_AGE} s; sign again")
    if created > now + MAX_SKEW:
        raise _Wrong("invalid_signature", "the signature is from the future; set the clock")
    if expires is not None and expires < now:
        raise _Wrong("invalid_signature", "the signature has expired; sign again")
    return created, expires


def _check_texts(sent: SignatureInput) -> str | None:
    """The nonce, if the parameters that are texts are in order."""
    sent.string("keyid")
    if sent.string("alg") not in (None, ALGORITHM):
        raise _Wrong("unsupported_algorithm", f"sign with {ALGORITHM}")
    nonce = sent.string("nonce")
    if nonce is not None and not 1 <= len(nonce) <= MAX_NONCE:
        raise Malformed(f"the nonce has not 1 to {MAX_NONCE} characters")
    return nonce


def _check_host(message: SignedMessage) -> None:
    """A signature given to another node must be worth nothing here, whatever Host it came with."""
    host = message.host()
    if host is None:
        raise Malformed("the request has not exactly one Host")
    if host != message.origin.authority:
        raise _Wrong("invalid_signature", f"this node is {message.origin.authority}: send and sign that as the Host")


def _check_digest(field: str | None, body: bytes) -> None:
    if field is None:
        return
    try:
        digest.check(field, body)
    except digest.DigestMismatch as error:
        raise _Wrong("invalid_signature", str(error)) from error
    except digest.DigestError as error:
        raise Malformed(str(error)) from error


def _keys(message: SignedMessage) -> Mapping[str, SignatureKey]:
    try:
        return read_keys(message.field("signature-key") or "")
    except Malformed as error:
        raise _Wrong("invalid_key", str(error)) from error


def _signatures(message: SignedMessage) -> Mapping[str, bytes]:
    try:
        return read_signatures(message.field("signature") or "")
    except Malformed as error:
        raise _Wrong("invalid_signature", str(error)) from error


def _replay_id(key: PublicKey, nonce: str | None, base: bytes) -> str:
    what = b"base" + base if nonce is None else b"nonce" + nonce.encode()
    return base64url(sha256(key.raw + what).digest())
