"""Who signed a request, as the rooms keep it (DESIGN 8, Signatures)."""

import msgspec


class Signed(msgspec.Struct, frozen=True):
    """A verified signature over the whole request."""

    signer: str
    """RFC 7638 thumbprint of the key."""
    signature: bytes
    """The proof as JSON, for the record: a peer can verify it without us."""
    replay_id: str
    """The same for every use of this signature; the write that uses it remembers it."""
