"""Messages that only the owner of an inbox can read: HPKE (RFC 9180) to its `encryption_key`. Needs the extra `seal`.

Base mode with DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and ChaCha20-Poly1305. `info` is INFO and the inbox's address, so
that nobody can redirect a ciphertext to another inbox. A ciphertext is the encapsulated key and the encrypted text, in
base64. It does not prove who sealed it: sign the request for that.
"""

from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from relay_client.errors import UsageError
from relay_client.keyfile import kept_in

INFO = b"relay-node inbox "
SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


class Unreadable(Exception):
    """The ciphertext is not for this key and inbox, or was altered."""


def seal(text: str, encryption_key: str | None, address: str) -> str:
    """Return the `ciphertext` of a message (or `reply_ciphertext`) for the inbox with this key and address.

    The key is the `encryption_key` from `relay.inboxes.get`. Raises UsageError if it is None because the owner gave no
    key, or if it cannot be used, such as a point of low order.
    """
    if encryption_key is None:
        raise UsageError("this inbox has no encryption_key")
    content = text.encode()
    try:
        key = X25519PublicKey.from_public_bytes(urlsafe_b64decode(encryption_key + "=" * (-len(encryption_key) % 4)))
        return b64encode(SUITE.encrypt(content, key, _info(address))).decode()
    except ValueError as wrong:
        raise UsageError(f"the encryption_key of this inbox cannot be used: {wrong}") from wrong


class SealFile:
    """The encryption key of your inbox, in a file that is created if it does not exist.

    Raises PermissionError if others may read the file, ValueError if it has no key.
    """

    def __init__(self, path: Path | str) -> None:
        self._key = X25519PrivateKey.from_private_bytes(
            kept_in(path, lambda: X25519PrivateKey.generate().private_bytes_raw())
        )

    @property
    def public(self) -> str:
        """The `encryption_key` for `relay.inboxes.open`."""
        return urlsafe_b64encode(self._key.public_key().public_bytes_raw()).decode().rstrip("=")

    def open(self, ciphertext: str, address: str) -> str:
        """Decrypt a text that was sealed for the inbox at this address. Raises Unreadable."""
        try:
            return SUITE.decrypt(b64decode(ciphertext), self._key, _info(address)).decode()
        except (InvalidTag, ValueError):  # ValueError: not base64, too short, or not UTF-8
            raise Unreadable("this ciphertext was not sealed for this key and inbox") from None


def _info(address: str) -> bytes:
    return INFO + address.encode()
