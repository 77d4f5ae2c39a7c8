"""Records which client posted, offered or listed what. Only the operator can see it, for RELAY_PROVENANCE_DAYS.

Offers of contracts and entries of agents are recorded like posts, in the same sets. A worker makes the records after
the acknowledgement, from the events of new posts. Records are sorted by the time of the post. They are found by that
time, and removed by it when they are too old, whether or not the post still exists.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import cast

from node.board.model import AGENT, Posted
from node.store import Store, ids, keys
from node.store.decoding import entries_of
from node.store.lists import scan_sorted_set
from node.store.outbox import Event

OFFERED = "task.offered"
LISTED = {"agent.listed", "check.asked"}
POSTED = {"thread.posted", "reply.posted", OFFERED, *LISTED}
"""Events of posts, contracts and agents. Such an event names the client only if it announces something new."""

PAGE_SIZE = 1000
"""Records that are read together."""


class Provenance:
    """Records and finds who posted what. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, days: float) -> None:
        """`days`: how long records are kept; 0 = nothing is recorded."""
        self._store = store
        self._days = days

    async def handle(self, events: Sequence[Event]) -> None:
        """Record who made the posts that these events announce. Idempotent."""
        posted = [event for event in events if event.kind in POSTED and event.fields.get("client")]
        if not self._days or not posted:
            return
        records = await self._store.run_all(map(_reading, posted))
        changes: list[Sequence[str | int]] = []
        for event, record in zip(posted, records, strict=True):
            if found := _record_of(event, record):
                at, member = found
                changes.append(("ZADD", keys.posters(event.partition), at, member))
        await self._store.run_all(changes)

    async def of_posts(self, posts: Sequence[tuple[str, int, int]]) -> list[Posted | None]:
        """Return who made each post, given its thread or contract, number and time (ms); None if there is no record."""
        commands = [
            ("ZRANGEBYSCORE", keys.posters(ids.partition_of_id(thread_id)), at, at) for thread_id, _, at in posts
        ]
        found: list[Posted | None] = []
        for (thread_id, seq, at), members in zip(posts, await self._store.run_all(commands), strict=True):
            at_that_time = (_posted(member.decode(), at) for member in cast("list[bytes]", members))
            found.append(next((each for each in at_that_time if (each.thread_id, each.seq) == (thread_id, seq)), None))
        return found

    async def find(self, is_wanted: Callable[[Posted], bool]) -> list[Posted]:
        """Return all records for which `is_wanted` is true, newest first. Reads every record."""
        found = [known async for known in self._all() if is_wanted(known)]
        return sorted(found, key=lambda known: known.at, reverse=True)

    async def _all(self) -> AsyncIterator[Posted]:
        for partition in range(ids.PARTITIONS):
            async for found in scan_sorted_set(self._store, keys.posters(partition), PAGE_SIZE):
                for member, at in found:
                    yield _posted(member, int(at))


def _reading(event: Event) -> tuple[str, ...]:
    """Return the command that reads when the post of an event was stored, who signed it, and its source."""
    if seq := event.fields.get("seq"):
        return "XRANGE", keys.replies(event.entity), f"0-{seq}", f"0-{seq}"
    if event.kind == OFFERED:
        return "HMGET", keys.task(event.entity), "created_at", "signer", "kind"
    if event.kind in LISTED:
        return "HMGET", keys.agent(event.entity), "status", "address", "proof"
    return "HMGET", keys.thread(event.entity), "created_at", "signer", "source"


def _record_of(event: Event, reply: object) -> tuple[int, str] | None:
    """Return the time and content of the record of a post; None if the post is gone."""
    if seq := event.fields.get("seq"):
        fields = dict(entries_of(reply)).get(f"0-{seq}", {})
        at, signer, source = fields.get(b"at"), fields.get(b"signer"), b"reply"
    elif event.kind in LISTED:
        status, address, proof = cast("list[bytes | None]", reply)
        # Posting an entry again renews it. The entry holds no time of that, so the time of the event counts.
        at = status and event.at
        signer, source = address if proof == b"key" else None, AGENT.encode()
    else:
        at, signer, source = cast("list[bytes | None]", reply)
    if at is None:
        return None
    words = (event.entity, seq or "0", event.fields["client"], (source or b"").decode(), (signer or b"").decode())
    return int(at), " ".join(words)


def _posted(member: str, at: int) -> Posted:
    thread_id, seq, client, source, signer = member.split(" ")
    return Posted(thread_id, int(seq), source, client, signer or None, at)
