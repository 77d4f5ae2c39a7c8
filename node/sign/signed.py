"""The signature of a request, as services store it (DESIGN 8, Signatures)."""

import msgspec


class Signed(msgspec.Struct, frozen=True):
    """A verified signature over the whole request, or UNSIGNED if the request has none."""

    signer: str
    """RFC 7638 thumbprint of the key; empty if the request is not signed."""
    signature: bytes
    """The proof (`proof.Proof`) as JSON, for the record."""
    replay_id: str
    """The same for every use of this signature. Whoever stores the post records it, so that the signature is used only
    once."""

    @property
    def fields(self) -> dict[str, str | bytes]:
        """The fields that a signed post keeps of its signature; none for an unsigned one."""
        return {"signer": self.signer, "signature": self.signature} if self.signer else {}


UNSIGNED = Signed("", b"", "")
