"""base64url without padding, as JOSE writes it (RFC 7515 §2)."""

from base64 import urlsafe_b64decode, urlsafe_b64encode


def encode(data: bytes) -> str:
    """The text of some bytes."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """The bytes of a text. Not every text that is read is one that `encode` writes. Raises ValueError."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
