"""What `request.verify` finds: a verified signature, or one that is meant for this node and wrong."""

from typing import Literal

import http_sf
import msgspec

from node.sign.keys import PublicKey

Components = tuple[tuple[str, str], ...]
"""Names and values of what a signature covers, in the order they were signed."""

ErrorCode = Literal["invalid_signature", "invalid_input", "invalid_key", "unsupported_algorithm"]


class Verified(msgspec.Struct, frozen=True):
    """A valid signature that is meant for this node."""

    key: PublicKey
    signature: bytes
    components: Components
    params: str
    """The value of `@signature-params`."""
    replay_id: str
    """The same for every request with this signature, or with another one of the same key and nonce."""


class InvalidSignature(Exception):
    """A signature that is meant for this node and does not verify."""

    def __init__(self, error: ErrorCode, message: str, required: tuple[str, ...] = ()) -> None:
        """`message` tells the client what to correct; `required` lists the components that have to be covered."""
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
