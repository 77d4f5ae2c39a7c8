"""The parties whose shares of callbacks are counted: the publisher of the URL, and the owner of the receiver's domain.

A node without accounts knows a publisher only by its client address. An entity keeps digests of that address, not the
address itself, because a contract is kept for ever and an address need not be. Two digests form one name, kept next to
the callback_url: the first is that of the site, by which shares are counted, the second that of the client.

A domain belongs to whoever registered it, and its owner can make any number of names below it. `publicsuffixlist`
contains the public suffix list in its package, so nothing is fetched. The alternatives are worse: tldextract fetches a
list unless it is told not to and brings four more packages, and taking the last two labels would make `co.uk` one
owner. Below a suffix of the list's private section (`github.io`), each name has its own owner, too.
"""

import asyncio
from functools import cache, lru_cache

import msgspec
from publicsuffixlist import PublicSuffixList

from node.store import ids

_DIGEST_HEX = 16
"""Hex digits of each of the two digests, as in `ids.site_name`: enough that no two clients share a name."""


def publisher_of(client: str) -> str:
    """Return the publisher name of the client with this address."""
    return ids.site_name(client) + ids.digest(client)[:_DIGEST_HEX]


def publisher_of_url(url: str) -> str:
    """Return a publisher name made from a URL, for an entity that does not say who gave the URL."""
    return ids.digest(url)


def site_part(publisher: str) -> str:
    """Return the part of a publisher name that all clients of one site have in common."""
    return publisher[:_DIGEST_HEX]


class Requester(msgspec.Struct, frozen=True):
    """The publisher on whose behalf a call is made, and the id of what is sent."""

    publisher: str = ""
    """The name of the publisher."""
    id: str = ""
    """Identifies what is sent, so that it is recognised when it asks for its turn again."""

    @property
    def site(self) -> str:
        """The part of the publisher's name that all clients of its site have in common."""
        return site_part(self.publisher)


@lru_cache(maxsize=4096)
def registrable(host: str) -> str:
    """Return the registered domain of a host: `example.co.uk` for `hooks.eu.example.co.uk`.

    A public suffix and an address are returned as they are. `host` is in lower case, as in `target.Target`.
    """
    is_address = host.startswith("[") or host.rpartition(".")[2].isdigit()
    return host if is_address else public_suffixes().privatesuffix(host) or host


@cache
def public_suffixes() -> PublicSuffixList:
    """Return the public suffix list. The first call takes 50 ms."""
    return PublicSuffixList()


async def preload() -> None:
    """Load the public suffix list in a thread, so that neither the start of a process nor a callback waits for it."""
    await asyncio.to_thread(public_suffixes)
