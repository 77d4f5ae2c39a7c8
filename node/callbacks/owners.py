"""For whom the shares of a callback are counted: the publisher that gave the URL, the owner of the receiver's domain.

A node without accounts knows a publisher by its client address only. An entity keeps that beside its callback_url as
digests, because a contract is kept for ever and an address need not be. Two digests form one name: first that of the
site, by which shares are counted, then that of the client within it.

A domain belongs to whoever registered it, who can make any number of names below it. `publicsuffixlist` has the public
suffix list in its package, so nothing is fetched: tldextract fetches a list unless it is told not to and brings four
more packages, and taking the last two labels would make `co.uk` one owner. Below a suffix of the list's private section
(`github.io`) everybody is an owner, too.
"""

import asyncio
from functools import cache, lru_cache

import msgspec
from publicsuffixlist import PublicSuffixList

from node.store import ids

_DIGEST_HEX = 16
"""Hex digits of each of the two digests, as in `ids.site_name`: enough that no two clients share a name."""


def publisher_of(client: str) -> str:
    """The name of the client with that address."""
    return ids.site_name(client) + ids.digest(client)[:_DIGEST_HEX]


def publisher_of_url(url: str) -> str:
    """The name that stands for whoever gave a URL, where that was not kept."""
    return ids.digest(url)


def site_part(publisher: str) -> str:
    """The part of the name that all clients of one site have in common."""
    return publisher[:_DIGEST_HEX]


class Requester(msgspec.Struct, frozen=True):
    """Who asks for a call."""

    publisher: str = ""
    """On whose behalf."""
    id: str = ""
    """Names what is sent, so that it is recognised when it asks again."""

    @property
    def site(self) -> str:
        """What the publisher has in common with its neighbours."""
        return site_part(self.publisher)


@lru_cache(maxsize=4096)
def registrable(host: str) -> str:
    """The registered domain of a host: `example.co.uk` of `hooks.eu.example.co.uk`.

    A public suffix and an address are returned as they are. `host` is in lower case, as in `target.Target`.
    """
    is_address = host.startswith("[") or host.rpartition(".")[2].isdigit()
    return host if is_address else public_suffixes().privatesuffix(host) or host


@cache
def public_suffixes() -> PublicSuffixList:
    """The list. The first call takes 50 ms."""
    return PublicSuffixList()


async def preload() -> None:
    """Read the list in a thread, so that neither the start of a process nor its first callback waits for it."""
    await asyncio.to_thread(public_suffixes)
