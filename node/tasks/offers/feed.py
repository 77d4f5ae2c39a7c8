"""The feed of offers: a stream by which processes tell each other which contracts were just put on offer.

The feed is one capped stream for all partitions. The process that puts a contract on offer adds the offer right after
the contract's own script. The worker does so once more, which changes nothing unless that process died in between. A
wake-up on the channel of the same name reaches those who wait for work.
"""

import json
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from node.common.unreadable import show_each
from node.store import RedisReply, Store, StoreUnavailable, keys
from node.store.decoding import entries_of, entry_id, names_of
from node.store.steps import Step
from node.store.unreadable import read_reachable
from node.tasks import steps
from node.tasks.view import StoredTask

FEED_LENGTH = 10_000
"""About how many offers the feed keeps. Its followers read it several times a minute."""

START = "0-0"
"""The position before the first entry of the feed."""

PAGE = 256
"""Most offers that are read in one round trip."""

_LAST = ("XREVRANGE", keys.OFFERS, "+", "-", "COUNT", 1)

_FACTS = ("kind", "status", "publisher_id", "skills", "retry_at")


class Offer(msgspec.Struct, frozen=True):
    """A contract that was on offer a moment ago, and the facts that decide which workers it fits."""

    id: str
    publisher_id: str
    skills: frozenset[str]


class WantedOffers(msgspec.Struct, frozen=True):
    """What a worker can do, and for whom it works."""

    skills: frozenset[str] = frozenset()
    publishers: frozenset[str] = frozenset()
    """Empty = all."""

    def fits(self, offer: Offer) -> bool:
        """Return whether the worker has all skills that the contract asks for, and works for its publisher."""
        return offer.skills <= self.skills and (not self.publishers or offer.publisher_id in self.publishers)


def announcement_of(task_id: str, row: StoredTask) -> Step | None:
    """Return the step that announces a contract as it is now; None if it cannot be claimed."""
    if not row.can_be_claimed:
        return None
    fields = row.fields
    return steps.offer_announce(
        offers=keys.OFFERS,
        known=keys.KNOWN_OFFERS,
        id=task_id,
        # The attempt makes it unique: a contract may be put on offer, claimed and released within one millisecond.
        at=row.changed_at + int(fields[b"attempt"]) % 1000 / 1000,
        keep=FEED_LENGTH,
        publisher=fields[b"publisher_id"],
        skills=fields.get(b"skills", b""),
    )


class OfferFeed:
    """Reads the feed, and the list of all offers. Every method raises StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.wakeups = store.wakeups

    async def end(self) -> str:
        """Return the id of the newest entry, or START."""
        return _end(await self._store.command(*_LAST))

    async def after(self, entry: str) -> list[tuple[str, Offer]]:
        """Return up to PAGE entries after that one, oldest first."""
        return _entries(await self._store.command(*_after(entry)))

    async def tail(self, entry: str) -> tuple[list[tuple[str, Offer]], str]:
        """Return the entries as `after` does, and the position to go on from.

        A position beyond the end of the feed (a failover lost entries, or the client made it up) is replaced by the
        end: otherwise each new entry before it would wake the reader in vain.
        """
        last, found = await self._store.run_all([_LAST, _after(entry)])
        entries = _entries(found)
        return entries, entries[-1][0] if entries else min(entry, _end(last), key=entry_id)

    async def count(self) -> int:
        """Return how many contracts are listed as offered."""
        return cast("int", await self._store.command("ZCARD", keys.tasks_with("offered")))

    async def listed(self, start: int, count: int = PAGE) -> tuple[list[Offer], list[str]]:
        """Return the claimable offers in a part of the list, newest first, and the ids of those out of reach."""
        listed = keys.tasks_with("offered")
        found = await self._store.command("ZREVRANGE", listed, start, start + count - 1)
        return await self.among(names_of(found))

    async def among(self, task_ids: Sequence[str]) -> tuple[list[Offer], list[str]]:
        """Return the contracts that can be claimed, in the given order, and the ids of those out of reach.

        No texts are read. A change by time alone counts only once a step has recorded it.
        """
        rows, unreachable = await read_reachable(task_ids, self._facts)
        offers = show_each(rows.items(), _offer_of)
        return [offer for offer in offers.values() if offer], unreachable

    async def _facts(self, task_ids: Sequence[str]) -> list[RedisReply | StoreUnavailable]:
        return await self._store.run_reachable(("HMGET", keys.task(each), *_FACTS) for each in task_ids)


def _after(entry: str) -> tuple[str | int, ...]:
    return "XRANGE", keys.OFFERS, f"({entry}", "+", "COUNT", PAGE


def _entries(reply: object) -> list[tuple[str, Offer]]:
    rows = entries_of(reply)
    return [(name, _offer(row[b"id"].decode(), row[b"publisher_id"], row[b"skills"])) for name, row in rows]


def _offer_of(task_id: str, row: RedisReply) -> Offer | None:
    """Return the offer with these _FACTS; None if it cannot be claimed."""
    kind, status, publisher, skills, pause = cast("Sequence[bytes | None]", row)
    if kind != b"contract" or status != b"offered" or not publisher or pause:
        return None
    return _offer(task_id, publisher, skills or b"")


def _end(reply: object) -> str:
    found = cast("list[tuple[bytes, Any]]", reply)
    return found[0][0].decode() if found else START


def _offer(task_id: str, publisher: bytes, skills: bytes) -> Offer:
    return Offer(task_id, publisher.decode(), frozenset(json.loads(skills)) if skills else frozenset())
