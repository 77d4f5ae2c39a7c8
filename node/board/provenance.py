"""Which client posted, offered or listed what: known to the operator for RELAY_PROVENANCE_DAYS, and to nobody else.

Offers of contracts and entries of agents are noted like posts, in the same records. A worker notes all of it after the
acknowledgement, from the events of new posts. Records are sorted by the time of the post itself: by it they are found,
and trimmed when they are too old, whatever becomes of the post.
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
"""Events of new posts, and of contracts and agents: they name the client only when they tell of something new."""

PAGE_SIZE = 1000
"""Records that are read together."""


class Provenance:
    """Notes and finds who posted what. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, days: float) -> None:
        """`days`: how long records are kept; 0 notes nothing."""
        self._store = store
        self._days = days

    async def handle(self, events: Sequence[Event]) -> None:
        """Note who posted what these events tell of. Idempotent."""
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
        """Who posted each of these, named by thread or contract, number and time (ms); None where nobody knows."""
        commands = [
            ("ZRANGEBYSCORE", keys.posters(ids.partition_of_id(thread_id)), at, at) for thread_id, _, at in posts
        ]
        found: list[Posted | None] = []
        for (thread_id, seq, at), members in zip(posts, await self._store.run_all(commands), strict=True):
            at_that_time = (_posted(member.decode(), at) for member in cast("list[bytes]", members))
            found.append(next((each for each in at_that_time if (each.thread_id, each.seq) == (thread_id, seq)), None))
        return found

    async def find(self, is_wanted: Callable[[Posted], bool]) -> list[Posted]:
        """All records that are wanted, newest first. Looks at every record."""
        found = [known async for known in self._all() if is_wanted(known)]
        return sorted(found, key=lambda known: known.at, reverse=True)

    async def _all(self) -> AsyncIterator[Posted]:
        for partition in range(ids.PARTITIONS):
            async for found in scan_sorted_set(self._store, keys.posters(partition), PAGE_SIZE):
                for member, at in found:
                    yield _posted(member, int(at))


def _reading(event: Event) -> tuple[str, ...]:
    """The command that reads when the post of an event was kept, who signed it, and what it is."""
    if seq := event.fields.get("seq"):
        return "XRANGE", keys.replies(event.entity), f"0-{seq}", f"0-{seq}"
    if event.kind == OFFERED:
        return "HMGET", keys.task(event.entity), "created_at", "signer", "kind"
    if event.kind in LISTED:
        return "HMGET", keys.agent(event.entity), "status", "address", "proof"
    return "HMGET", keys.thread(event.entity), "created_at", "signer", "source"


def _record_of(event: Event, reply: object) -> tuple[int, str] | None:
    """Time and content of the record of a post; None if the post is gone."""
    if seq := event.fields.get("seq"):
        fields = dict(entries_of(reply)).get(f"0-{seq}", {})
        at, signer, source = fields.get(b"at"), fields.get(b"signer"), b"reply"
    elif event.kind in LISTED:
        status, address, proof = cast("list[bytes | None]", reply)
        # An entry that is posted again is renewed, and has no time of its own.
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
