"""The network that a client belongs to: who has one address of IPv6 mostly has all of them.

Limits count an IPv6 client by its /64, the smallest network that anybody is given. Providers hand out a /48 or a /56 to
one customer (RFC 6177 calls it a site), which is 65,536 or 256 times as many clients; so totals are kept of the /48
as well.
"""

from functools import lru_cache
from ipaddress import IPv6Network

SITE_BITS = 48

SITE_SHARE = 8
"""How many times what one client may have all clients of its site may have together."""


def site_of(client: str) -> str:
    """The /48 of a client that is counted as an IPv6 /64; any other client is a site of its own."""
    return _site_of(client) if ":" in client else client


@lru_cache(maxsize=4096)
def _site_of(client: str) -> str:
    return str(IPv6Network(client, strict=False).supernet(new_prefix=SITE_BITS))
