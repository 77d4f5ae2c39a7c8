"""Which addresses count as one client, and which clients belong to one site.

Limits count an IPv6 client by its /64, the smallest network that a provider assigns; within it, a host chooses its
address freely. Providers assign a /56 or a /48 to one customer (a site in RFC 6177). That is 256 or 65,536 such
clients, so totals are also kept for each /48.
"""

import ipaddress
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network

from node.config.values import Network

CLIENT_BITS = 64
"""Length of the IPv6 prefix that counts as one client (DESIGN 6)."""

SITE_BITS = 48
"""Length of the IPv6 prefix that counts as one site: the largest network that a provider assigns to one customer."""

SITE_SHARE = 8
"""Total of a site, as a multiple of the total of one client."""


def site_of(client: str) -> str:
    """Return the /48 of a client that counts as an IPv6 /64; any other client is its own site."""
    return _site_of(client) if ":" in client else client


@lru_cache(maxsize=4096)
def _site_of(client: str) -> str:
    return str(IPv6Network(client, strict=False).supernet(new_prefix=SITE_BITS))


def network_of(name: str) -> Network:
    """Return the network that an operator names by an address or a prefix. An IPv6 network is widened to a whole
    client.

    Raises ValueError with a message for the operator if `name` is neither an address nor a prefix, or covers every
    address.
    """
    try:
        network = ipaddress.ip_network(name.strip(), strict=False)
    except ValueError:
        shape = "an IP address or prefix, such as 203.0.113.7 or 2001:db8::/48, or the thumbprint of a key"
        raise ValueError(f"{name!r} is not {shape}") from None
    mapped = network.network_address.ipv4_mapped if isinstance(network, IPv6Network) else None
    if mapped is not None:
        network = IPv4Network((mapped, network.prefixlen - 96))
    if isinstance(network, IPv6Network) and network.prefixlen > CLIENT_BITS:
        network = network.supernet(new_prefix=CLIENT_BITS)
    if network.prefixlen == 0:
        raise ValueError(f"{name!r} covers every address: name a longer prefix")
    return network
