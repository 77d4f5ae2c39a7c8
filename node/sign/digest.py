"""Reads Content-Digest (RFC 9530) and compares it with the content. Also reads an artifact's `digest_sha256`.

Only sha-256 and sha-512 are known. The other registered algorithms are broken, or are not hash functions.
"""

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Mapping

from node.sign.fields import Malformed, dictionary

KNOWN: Mapping[str, int] = {"sha-256": 32, "sha-512": 64}
"""The known algorithms and the lengths of their digests in bytes."""

_HEX_SHA256 = 64


class DigestError(ValueError):
    """The digest cannot be accepted. The message says what is wrong with it."""


class DigestMismatch(DigestError):
    """The digest is not that of the content."""


def parse(field: str) -> dict[str, bytes]:
    """Return the digests in a Content-Digest field (RFC 9530 §2), by known algorithm.

    Raises DigestError if the field is not a dictionary of byte sequences, names an algorithm twice, has a digest of the
    wrong length, or has no digest of a known algorithm.
    """
    try:
        members = dictionary("Content-Digest", field.encode("utf-8", "surrogatepass"))
    except Malformed as error:
        raise DigestError(str(error)) from error
    digests: dict[str, bytes] = {}
    for name, (value, _) in members.items():
        if not isinstance(value, bytes):
            raise DigestError(f"the {name} digest is not a byte sequence, such as {name}=:<base64>:")
        if name not in KNOWN:
            continue
        if len(value) != KNOWN[name]:
            raise DigestError(f"the {name} digest has {len(value)} bytes, not {KNOWN[name]}")
        digests[name] = value
    if not digests:
        raise DigestError(f"Content-Digest has no digest by {' or '.join(KNOWN)}")
    return digests


def check(field: str, content: bytes) -> None:
    """Compare `content` with every digest of a known algorithm. Raises DigestError."""
    for name, digest in parse(field).items():
        if hashlib.new(name.replace("-", ""), content).digest() != digest:
            raise DigestMismatch(f"the content does not have the {name} digest that Content-Digest states")


def read_sha256(text: str) -> bytes:
    """Return the 32 bytes of a SHA-256 written as 64 hex digits or in base64, padded or not (DESIGN 8).

    Raises DigestError.
    """
    padding = "=" * (-len(text) % 4)
    try:
        digest = bytes.fromhex(text) if len(text) == _HEX_SHA256 else b64decode(text + padding)
    except ValueError:
        digest = b""
    if len(digest) != KNOWN["sha-256"] or not _is_spelling_of(text, digest):
        raise DigestError("digest_sha256 is not a SHA-256 digest in 64 hexadecimal digits or base64")
    return digest


def _is_spelling_of(text: str, digest: bytes) -> bool:
    """Return whether `text` spells the digest exactly. The decoders ignore stray bits and characters that are not
    digits.
    """
    padded = b64encode(digest).decode()
    return text.lower() == digest.hex() or text in (padded, padded.rstrip("="))
