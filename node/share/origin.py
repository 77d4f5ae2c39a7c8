"""The origin of something, as an operator names it: an address, a prefix, or the thumbprint of a key."""

from ipaddress import ip_network

import msgspec

from node.config.values import Network
from node.share.site import CLIENT_BITS


class ClientOrigin(msgspec.Struct, frozen=True):
    """One client, all clients of a network, or whoever has a key."""

    named: Network | str
    """A network, or the thumbprint of a key."""

    def covers(self, client: str, signer: str | None) -> bool:
        """Return whether something from this client, signed with this key (None: unsigned), came from this origin."""
        if isinstance(self.named, str):
            return signer == self.named
        try:
            return contains(self.named, ip_network(client))
        except ValueError:  # a peer on a unix socket has no address
            return False

    @property
    def client(self) -> str:
        """The client as limits count it, if this is exactly one client; empty for a key, and for a larger network."""
        if isinstance(self.named, str):
            return ""
        if self.named.version == 6:
            return str(self.named) if self.named.prefixlen == CLIENT_BITS else ""
        return str(self.named.network_address) if self.named.prefixlen == self.named.max_prefixlen else ""

    @property
    def key(self) -> str:
        """The thumbprint of the key; empty for addresses."""
        return self.named if isinstance(self.named, str) else ""


class Attributed(msgspec.Struct, frozen=True):
    """Something that is known to have come from a client."""

    kind: str
    id: str
    """The id as the operator's commands name it: `<thread>:<number>` for a reply, `<inbox>:<id>` for a message."""
    at: int | None
    """Milliseconds since 1970; None where the time is not kept."""
    client: str | None
    """As limits count it: an IPv4 address, or the /64 of an IPv6 address. None where only the key is known."""
    signer: str | None
    """Thumbprint of the key that signed the thing, or that it belongs to."""


def contains(wider: Network | str, named: Network | str) -> bool:
    """Return whether the first network contains the second. A key contains nothing."""
    if isinstance(wider, str) or isinstance(named, str):
        return False
    return wider.version == named.version and named.subnet_of(wider)  # type: ignore[arg-type]
