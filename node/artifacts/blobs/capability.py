"""Signed capabilities of the embedded blob store: whoever has the text may do what it says, until it expires.

A capability is `<payload>.<HMAC-SHA256>`, both in base64url. The key is derived from the node's secret for this purpose
alone, so that no other token of the node can pass for a capability. Nothing is stored here: `upload` ensures that each
upload happens only once.
"""

import hmac
import math
import time
from collections.abc import Callable
from hashlib import sha256

import msgspec

from node.artifacts.blobs.interface import Grant
from node.common import base64url
from node.common.refusal import Refused

_PURPOSE = b"relay-node blob capability v1"
_MAX_LENGTH = 4096
"""Maximum length of a capability. The longest real one, with a file name of 255 four-byte letters, has about 1,900
characters."""


class UploadGrant(msgspec.Struct, frozen=True, array_like=True, tag="upload"):
    """The right to store one blob."""

    grant: Grant
    expires: int
    """Unix seconds."""


class DownloadGrant(msgspec.Struct, frozen=True, array_like=True, tag="download"):
    """The right to read one blob."""

    grant: Grant
    filename: str | None
    expires: int
    """Unix seconds."""


Capability = UploadGrant | DownloadGrant


class GrantSigner:
    """Makes and checks capabilities. `secret` is RELAY_SECRET; `clock` returns Unix seconds."""

    def __init__(self, secret: str, clock: Callable[[], float] = time.time) -> None:
        if not secret:
            raise ValueError("capabilities need a secret")
        self._key = hmac.digest(secret.encode(), _PURPOSE, sha256)
        self._clock = clock
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder[Capability](Capability).decode

    def upload(self, grant: Grant, seconds: int, begins: float | None = None) -> str:
        """Return a capability to upload `grant`, for `seconds` from the Unix time `begins`, or from now on."""
        return self._sign(UploadGrant(grant, self._ends(seconds, begins)))

    def download(self, grant: Grant, filename: str | None, seconds: int) -> str:
        """Return a capability to read `grant`, for `seconds`."""
        return self._sign(DownloadGrant(grant, filename, self._ends(seconds)))

    def read(self, text: str) -> Capability:
        """Return the capability in `text`. Raises Refused `blob.forged`, `blob.expired`."""
        payload, _, signature = text.partition(".")
        if len(text) > _MAX_LENGTH or not text.isascii():
            raise Refused("blob.forged")
        if not hmac.compare_digest(signature, self._mac(payload)):
            raise Refused("blob.forged")
        capability = self._decode(base64url.decode(payload))
        if self._clock() >= capability.expires:
            raise Refused("blob.expired")
        return capability

    def seconds_left(self, capability: Capability) -> int:
        """Return the whole seconds until the capability expires, never a negative number."""
        return max(0, int(capability.expires - self._clock()))

    def _ends(self, seconds: int, begins: float | None = None) -> int:
        """Return when a capability expires, rounded up to a whole second so that it lasts no less than was promised."""
        return math.ceil(self._clock() if begins is None else begins) + seconds

    def _sign(self, capability: Capability) -> str:
        payload = base64url.encode(self._encode(capability))
        return f"{payload}.{self._mac(payload)}"

    def _mac(self, payload: str) -> str:
        return base64url.encode(hmac.digest(self._key, payload.encode(), sha256))
