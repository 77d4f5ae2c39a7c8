"""The three outcomes of looking for a signature on a request. How they come about is `request.py`."""

from typing import Literal

import http_sf
import msgspec

from node.sign.keys import PublicKey

ErrorCode = Literal["invalid_signature", "invalid_input", "invalid_key", "unsupported_algorithm"]


class Verified(msgspec.Struct, frozen=True):
    """A good signature that is meant for this node."""

    key: PublicKey
    signature: bytes
    components: tuple[tuple[str, str], ...]
    """The covered components, name and value, in the order they were signed."""
    params: str
    """The value of `@signature-params`."""
    created: int
    """Seconds since 1970, as is `expires`."""
    expires: int | None
    replay_id: str
    """The same for every request that this signature, or another with its key and nonce, comes with."""


class Unverified(msgspec.Struct, frozen=True):
    """No signature, or none that is meant for this node: the request counts as unsigned."""

    reason: str


class InvalidSignature(msgspec.Struct, frozen=True):
    """Meant for this node and wrong: the request is refused with 400."""

    error: ErrorCode
    message: str
    """What is wrong, for the person who has to mend it."""
    required: tuple[str, ...] = ()
    """The components that have to be covered, if some are not."""

    @property
    def header(self) -> str:
        """The value of Signature-Error (draft-hardt-httpbis-signature-key-08)."""
        members: dict[str, http_sf.ItemType | http_sf.InnerListType] = {"error": http_sf.Token(self.error)}
        if self.required:
            members["required_input"] = ([(name, {}) for name in self.required], {})
        return http_sf.ser(members)


Verification = Verified | Unverified | InvalidSignature
