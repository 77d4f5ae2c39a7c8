"""An ed25519 public key and its text forms: JWK `x`, thumbprint, did:key, `whpk_`.

Only the canonical spelling of each form is accepted, so that a key has one name. Signing is in `node_key.py`.
"""

import json
from base64 import b64encode
from hashlib import sha256

import msgspec
from nacl.bindings import crypto_sign_open
from nacl.exceptions import BadSignatureError

from node.common import base64url

KEY_BYTES = 32
SIGNATURE_BYTES = 64
DID_PREFIX = "did:key:z6Mk"
"""The beginning of the did:key of every ed25519 key: in base58, the multicodec prefix is the same for all of them."""

_MULTICODEC_ED25519 = b"\xed\x01"
_MULTIBASE_MAX = 64  # characters; an ed25519 key takes 48
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


class KeyInvalid(ValueError):
    """The text is not an ed25519 public key in the required form. The message says why."""


class PublicKey(msgspec.Struct, frozen=True):
    """An ed25519 public key: 32 bytes. Only `verifies` checks whether they are a point on the curve."""

    raw: bytes

    @classmethod
    def from_x(cls, x: str) -> "PublicKey":
        """Read the `x` of a JWK, 43 base64url characters (RFC 8037 §2). Raises KeyInvalid."""
        try:
            raw = base64url.decode(x)
        except ValueError:
            raw = b""
        if len(raw) != KEY_BYTES or base64url.encode(raw) != x:
            raise KeyInvalid("x is not 32 bytes in base64url without padding")
        return cls(raw)

    @classmethod
    def from_did(cls, did: str) -> "PublicKey":
        """Read a did:key of an ed25519 key. Raises KeyInvalid."""
        raw = _base58_decode(did.removeprefix("did:key:z")) if len(did) <= _MULTIBASE_MAX else b""
        key = cls(raw.removeprefix(_MULTICODEC_ED25519))
        if len(key.raw) != KEY_BYTES or key.did != did:
            raise KeyInvalid("the did:key is not that of an ed25519 key")
        return key

    @property
    def x(self) -> str:
        return base64url.encode(self.raw)

    @property
    def jwk(self) -> dict[str, str]:
        """The public JSON Web Key (RFC 8037 §2)."""
        return {"kty": "OKP", "crv": "Ed25519", "x": self.x}

    @property
    def thumbprint(self) -> str:
        """RFC 7638 thumbprint with SHA-256, 43 base64url characters: the signer's short name."""
        members = json.dumps(self.jwk, sort_keys=True, separators=(",", ":"))
        return base64url.encode(sha256(members.encode()).digest())

    @property
    def did(self) -> str:
        return "did:key:z" + _base58_encode(_MULTICODEC_ED25519 + self.raw)

    @property
    def whpk(self) -> str:
        """The form of Standard Webhooks."""
        return "whpk_" + b64encode(self.raw).decode()

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Return whether this key made `signature` over `message`.

        libsodium refuses points of small order as keys. OpenSSL accepts the identity point, for which one signature
        verifies with every message.
        """
        if len(signature) != SIGNATURE_BYTES:
            return False
        try:
            crypto_sign_open(signature + message, self.raw)
        except BadSignatureError:
            return False
        return True


def _base58_encode(data: bytes) -> str:
    number, text = int.from_bytes(data), ""
    while number:
        number, digit = divmod(number, 58)
        text = _BASE58[digit] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def _base58_decode(text: str) -> bytes:
    """Return the bytes of a base58 text, without leading zero bytes; empty if it is not base58."""
    number = 0
    for character in text:
        digit = _BASE58.find(character)
        if digit < 0:
            return b""
        number = number * 58 + digit
    return number.to_bytes((number.bit_length() + 7) // 8)
