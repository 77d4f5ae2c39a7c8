"""Whose callbacks they are, as far as a node without accounts can tell: the client that gave the URL.

Its address is kept as a digest beside the URL, since a contract is kept for ever, and an address need not be. Two
digests stand in one name: that of the site, which is what shares are counted by, and that of the client in it.
"""

from node.store import ids

_HALF = 16  # hex digits of each digest, as of `ids.site_name`: enough that no two clients meet


def publisher_of(client: str) -> str:
    """The name under which a client address is kept."""
    return ids.site_name(client) + ids.digest(client)[:_HALF]


def publisher_of_url(url: str) -> str:
    """The name that stands for whoever gave a URL, if that was not kept."""
    return ids.digest(url)


def site_part(publisher: str) -> str:
    """The part of the name that all clients of one site have in common."""
    return publisher[:_HALF]
