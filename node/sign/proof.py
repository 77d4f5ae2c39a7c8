"""Proofs: what a stored post keeps of its signature, so that anybody can verify it without trusting the node.

A signature covers the body by its digest, so a proof also keeps the signed body, byte for byte. Verifying a proof means
rebuilding the signature base, checking signature and digest, and comparing the fields of the body with the record.

Proofs are public, and a body may hold a `callback_url` or an idempotency key. So the body is kept only if the record
shows all of its fields; a proof without a body shows who signed a request, but not its contents. The value of a header
that may be a secret is not kept either, nor is a signature that covers one: it would let anybody test guesses of the
value.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping
from typing import cast

import msgspec

from node.common.repeated_names import without_repetition
from node.sign import digest
from node.sign.fields import Malformed, SignatureInput, read_inputs
from node.sign.keys import PublicKey
from node.sign.request import Verified
from node.sign.signature_base import DERIVED, signature_base

MAX_SIGNED_BODY = 64 * 1024  # bytes; longer bodies are not kept

MAX_COVERED = 2048
"""Most characters of the values that a signature covers and of its parameters together. Beyond this, only the key is
kept: a client is charged for a post's body only, and with 25 kB of covered headers a reply took seven times as much
memory."""

PUBLIC_COMPONENTS = DERIVED | {
    "accept",
    "content-digest",
    "content-encoding",
    "content-language",
    "content-length",
    "content-type",
    "date",
    "host",
    "signature-agent",
    "signature-key",
    "user-agent",
}
"""Components whose values may be public. Others may be secrets: a token, an Idempotency-Key, the key of a proxy."""


class Proof(msgspec.Struct, frozen=True, omit_defaults=True):
    """The `signature` of a record (DESIGN 8)."""

    key: str
    """`x` of the ed25519 key, base64url."""
    signature: str
    """base64; empty if it covers a component that is not public, or too much. Then only the node could verify it."""
    components: tuple[tuple[str, str], ...]
    """Name and value of each covered component that is public, in the order in which they were signed."""
    params: str
    """The value of `@signature-params`."""
    signed_body: str | None = None
    """The exact body of the request; the component content-digest is its digest."""


class ProofInvalid(ValueError):
    """The proof proves nothing, or not the record that it is shown with. The message says why."""


class SignatureWithheld(ProofInvalid):
    """The proof lacks its signature: only the node that shows the proof knows whether there was one."""


class Proven(msgspec.Struct, frozen=True):
    """What a valid proof shows."""

    key: PublicKey
    created: int
    """Seconds since 1970, by the signer's clock."""
    target: str
    """Where the signer sent the request: URI, or authority and path."""
    content: Mapping[str, object] | None
    """The fields of the signed body; None if the proof does not have the body."""


def proof_of(verified: Verified, body: bytes, shown: Collection[str]) -> Proof:
    """Return the proof to store with a post. `shown` names the request fields that the post's record shows."""
    if len(verified.params) + sum(len(value) for _, value in verified.components) > MAX_COVERED:
        return Proof(verified.key.x, "", (), "")
    components = tuple(each for each in verified.components if each[0] in PUBLIC_COMPONENTS)
    is_public = len(components) == len(verified.components)
    signature = b64encode(verified.signature).decode() if is_public else ""
    return Proof(verified.key.x, signature, components, verified.params, _publishable(body, shown))


def rebuild_base(proof: Proof) -> bytes:
    """Return the bytes that were signed (RFC 9421 §2.5).

    Raises ProofInvalid if the components are not those that the parameters list.
    """
    covered = _covered(proof)
    try:
        base, names = signature_base(proof.components, proof.params), covered.components()
    except Malformed as error:
        raise ProofInvalid(str(error)) from error
    if covered.text() != proof.params or names != tuple(name for name, _ in proof.components):
        raise ProofInvalid("the parameters list other components than the proof has")
    return base


def verify_proof(proof: Proof) -> Proven:
    """Check a proof. The caller then compares the record with what was signed (`Proven.content`).

    Raises ProofInvalid; SignatureWithheld if there is no signature to check.
    """
    if not proof.signature:
        raise SignatureWithheld(
            "the node withholds the signature, as it covers a header that may be a secret, or more than the node keeps"
        )
    try:
        key = PublicKey.from_x(proof.key)
        signature = b64decode(proof.signature, validate=True)
    except ValueError as error:
        raise ProofInvalid("the key or the signature is not in base64") from error
    if not key.verifies(rebuild_base(proof), signature):
        raise ProofInvalid("the signature is not that of this key over these components")
    values = dict(proof.components)
    content = _content(proof, values.get("content-digest"))
    created = _covered(proof).params.get("created")
    target = values.get("@target-uri") or values.get("@authority", "") + values.get("@path", "")
    return Proven(key, created if isinstance(created, int) else 0, target, content)


def _covered(proof: Proof) -> SignatureInput:
    try:
        return read_inputs(f"proof={proof.params}")["proof"]
    except (Malformed, KeyError) as error:
        raise ProofInvalid("the signature parameters cannot be read") from error


def _content(proof: Proof, content_digest: str | None) -> Mapping[str, object] | None:
    if proof.signed_body is None:
        return None
    if content_digest is None:
        raise ProofInvalid("the signature does not cover the body")
    try:
        digest.check(content_digest, proof.signed_body.encode("utf-8", "surrogatepass"))
    except digest.DigestError as error:
        raise ProofInvalid(str(error)) from error
    content = _fields(proof.signed_body)
    if content is None:
        raise ProofInvalid("the signed body is not a JSON object with each field once")
    return content


def _publishable(body: bytes, shown: Collection[str]) -> str | None:
    if len(body) > MAX_SIGNED_BODY:
        return None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    content = _fields(text)
    return text if content is not None and content.keys() <= set(shown) else None


def _fields(text: str) -> dict[str, object] | None:
    """Parse a JSON object; None for another value, or if a field is repeated: parsers differ in which one they keep."""
    try:
        content: object = json.loads(text, object_pairs_hook=without_repetition)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, object]", content) if isinstance(content, dict) else None
