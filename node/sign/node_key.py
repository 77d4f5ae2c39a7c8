"""The node's own ed25519 key, which signs its callbacks (Standard Webhooks, v1a). All processes of a node share it."""

from base64 import b64decode, b64encode

import msgspec
from nacl.signing import SigningKey

from node.config import ConfigError, Settings
from node.sign.keys import KEY_BYTES, PublicKey

SECRET_PREFIX = "whsk_"  # noqa: S105 - the prefix says what follows and is not secret


class NodeKey(msgspec.Struct, frozen=True):
    """The signing key of a node. Its repr shows the public key only."""

    _signing: SigningKey
    public: PublicKey

    @classmethod
    def generate(cls) -> "NodeKey":
        """Make a new key from a random seed."""
        return cls._of(SigningKey.generate())

    @classmethod
    def parse(cls, text: str) -> "NodeKey":
        """Read `whsk_<base64 of the 32-byte seed>`. Raises ValueError, whose message does not contain the secret."""
        try:
            seed = b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
        except ValueError:
            seed = b""
        if not text.startswith(SECRET_PREFIX) or len(seed) != KEY_BYTES:
            raise ValueError(f"the signing key is not {SECRET_PREFIX}<base64 of 32 bytes>")
        return cls._of(SigningKey(seed))

    @classmethod
    def _of(cls, signing: SigningKey) -> "NodeKey":
        return cls(signing, PublicKey(bytes(signing.verify_key)))

    @property
    def secret(self) -> str:
        """The text that `parse` reads, as the file with the key holds it."""
        return SECRET_PREFIX + b64encode(bytes(self._signing)).decode()

    def __repr__(self) -> str:
        return f"NodeKey({self.public.whpk})"

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message, 64 bytes."""
        return self._signing.sign(message).signature

    def sign_webhook(self, message_id: str, timestamp: int, body: bytes) -> str:
        """Return the value of `webhook-signature` for one delivery attempt. `timestamp`: seconds since 1970."""
        signed = f"{message_id}.{timestamp}.".encode() + body
        return "v1a," + b64encode(self.sign(signed)).decode()


def webhook_key(settings: Settings) -> NodeKey:
    """Return the key in the settings. Raises ConfigError."""
    try:
        return NodeKey.parse(settings.signing_key)
    except ValueError as error:
        raise ConfigError(f"RELAY_SIGNING_KEY: {error}") from error
