"""base64url without padding, as JOSE writes it (RFC 7515 §2)."""

from base64 import urlsafe_b64decode, urlsafe_b64encode


def encode(data: bytes) -> str:
    """Encode bytes to text."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """Decode text to bytes. Accepts some texts that `encode` never produces. Raises ValueError."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
