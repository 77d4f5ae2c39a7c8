"""How far each consumer group is behind the event outboxes, over all partitions."""

from asyncio import gather
from typing import cast

import msgspec

from node.store import CommandFailed, Store, ids, keys
from node.store.clock import now_ms
from node.store.decoding import entry_id, fields_of
from node.store.heartbeats import living


class GroupLag(msgspec.Struct):
    """How far one group is behind."""

    group: str
    waiting: int = 0
    """Events that nobody has read yet."""
    unacknowledged: int = 0
    """Events that a worker has read and not acknowledged. That worker may have died since."""
    oldest_seconds: float = 0.0
    """Age of the oldest event that is unread or unacknowledged."""
    consumers: int = 0
    """Workers that are alive; each reads for every group. Redis' own list is not used, as it keeps dead ones."""


async def lags(store: Store) -> list[GroupLag]:
    """Return the lag of every group, sorted by name. Raises StoreUnavailable."""
    groups: dict[str, GroupLag] = {}
    for found in await gather(*(_partition(store, partition) for partition in range(ids.PARTITIONS))):
        for lag in found:
            total = groups.setdefault(lag.group, GroupLag(lag.group))
            total.waiting += lag.waiting
            total.unacknowledged += lag.unacknowledged
            total.oldest_seconds = max(total.oldest_seconds, lag.oldest_seconds)
    alive = await living(store) if groups else 0
    for total in groups.values():
        total.consumers = alive
    return [groups[name] for name in sorted(groups)]


async def _partition(store: Store, partition: int) -> list[GroupLag]:
    stream = keys.events(partition)
    try:
        groups = cast("list[object]", await store.command("XINFO", "GROUPS", stream, key=stream))
    except CommandFailed:  # the stream does not exist: no event has happened there yet
        return []
    return [await _group(store, stream, fields_of(group)) for group in groups]


async def _group(store: Store, stream: str, facts: dict[bytes, bytes]) -> GroupLag:
    name, read = facts[b"name"], facts[b"last-delivered-id"]
    # After some trims and deletions, Redis does not know the lag.
    lag = cast("int | None", facts.get(b"lag"))
    oldest: list[bytes] = []
    if facts[b"pending"]:
        summary = cast("list[bytes]", await store.command("XPENDING", stream, name))
        oldest = [summary[1]] if summary[1] else []
    unread = cast(
        "list[tuple[bytes, object]]",
        await store.command("XRANGE", stream, b"(" + read, "+", "COUNT", 1) if lag != 0 else [],
    )
    oldest += [entry for entry, _ in unread]
    seconds = 0.0
    if oldest:
        began = min(map(entry_id, oldest))[0]
        seconds = max(0, await now_ms(store, stream) - began) / 1000
    waiting = lag if lag is not None else len(unread)
    return GroupLag(name.decode(), waiting, int(facts[b"pending"]), round(seconds, 1))
