"""To which network a client belongs, for what a network may hold in all."""

from functools import lru_cache
from ipaddress import IPv6Network

PREFIX = 48
"""Bits of an IPv6 address that name a site (RFC 6177): whoever has one has 65,536 client addresses of 64 bits."""


@lru_cache(maxsize=4096)
def network_of(client: str) -> str:
    """The IPv6 /48 of a client address as it is counted; any other address, for which nobody has many, as it is."""
    return str(IPv6Network(client).supernet(new_prefix=PREFIX)) if ":" in client else client
