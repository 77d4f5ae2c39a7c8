"""The public feed has each public event of an outbox once and in order, whoever copies it and how often (NETWORK 3)."""

import asyncio
import random
from collections.abc import Sequence
from typing import cast

import pytest

from node.events.feed import READ_EACH, SLACK, FeedCopier, FeedStore
from node.events.source import START, CursorTooOld, Position
from node.store import Store, ids, keys
from node.store.outbox import Event
from tests.support.interrupted import Interrupted
from tests.support.node_under_test import NodeUnderTest

PARTITIONS = (0, 17, 63)
KINDS = ("thread.posted", "reply.posted", "artifact.completed", "task.claimed", "thread.purged")
PUBLIC = {"thread.posted": "thread.posted", "reply.posted": "reply.added", "task.claimed": "task.claimed"}


async def written(store: Store, partition: int, kinds: Sequence[str]) -> list[Event]:
    """Add events of these kinds to a partition's outbox, each about an entity of its own."""
    events: list[Event] = []
    for kind in kinds:
        entity = ids.new_id(partition)
        stream = keys.events(partition)
        entry = await store.command("XADD", stream, "*", "type", kind, "id", entity)
        assert isinstance(entry, bytes)
        events.append(Event(entry.decode(), partition, kind, entity, {}))
    return events


async def everything(feed: FeedStore) -> list[tuple[str, str]]:
    """Return type and entity of all entries."""
    found: list[tuple[str, str]] = []
    after: Position = START
    while entries := await feed.read(after, 3):
        found += [(entry.type, entry.entity) for entry in entries]
        after = entries[-1].position
    return found


async def test_each_public_event_is_copied_once_in_order_however_often_workers_try(node: NodeUnderTest) -> None:
    choice = random.Random(7)
    copiers = [FeedCopier(node.store, 100_000) for _ in range(3)]
    due: dict[int, list[tuple[str, str]]] = {partition: [] for partition in PARTITIONS}
    for _ in range(12):
        attempts: list[tuple[FeedCopier, list[Event]]] = []
        for partition in PARTITIONS:
            batch = await written(node.store, partition, choice.choices(KINDS, k=choice.randrange(1, 6)))
            due[partition] += [(PUBLIC[each.kind], each.entity) for each in batch if each.kind in PUBLIC]
            # A batch arrives as a whole and in parts, at different workers, and again.
            attempts += [(choice.choice(copiers), part) for part in (batch, batch[-1:], batch[:1], batch)]
        choice.shuffle(attempts)
        await asyncio.gather(*(copier.handle(batch) for copier, batch in attempts))
    copied = await everything(FeedStore(node.store))
    for partition, events in due.items():
        assert [each for each in copied if ids.partition_of_id(each[1]) == partition] == events
    assert len(copied) == sum(map(len, due.values()))


async def test_the_feed_is_in_the_order_of_time_whichever_outbox_is_read_first(node: NodeUnderTest) -> None:
    choice = random.Random(7)
    copiers = [FeedCopier(node.store, 100_000) for _ in range(2)]
    for _ in range(6):
        batches = [await written(node.store, choice.choice(PARTITIONS), ["thread.posted"]) for _ in range(30)]
        batches += [await written(node.store, 5, ["thread.posted"] * choice.randrange(1, 2 * READ_EACH))]
        choice.shuffle(batches)
        await asyncio.gather(*(choice.choice(copiers).handle(batch) for batch in batches))
    times = [entry.at for entry in await FeedStore(node.store).read(START, 10_000)]
    assert len(times) > 6 * 30
    assert times == sorted(times)


@pytest.mark.parametrize("first", range(3))
async def test_what_is_trimmed_while_it_is_read_is_told_and_not_passed_over(node: NodeUnderTest, first: int) -> None:
    copier = FeedCopier(node.store, 100)

    async def go_on() -> None:
        for _ in range(8):
            await copier.handle(await written(node.store, 5, ["task.offered"] * 50))

    await copier.handle(await written(node.store, 5, ["task.offered"]))
    interrupted = cast("Store", Interrupted(node.store, go_on, first))
    with pytest.raises(CursorTooOld):
        await FeedStore(interrupted).read(START, 10)


async def test_a_long_outbox_is_copied_whole(node: NodeUnderTest) -> None:
    events = await written(node.store, 5, ["thread.posted"] * 450)
    await FeedCopier(node.store, 100_000).handle(events[-1:])
    assert [entity for _, entity in await everything(FeedStore(node.store))] == [event.entity for event in events]


async def test_a_cursor_is_too_old_as_soon_as_something_after_it_is_gone(node: NodeUnderTest) -> None:
    feed, copier = FeedStore(node.store), FeedCopier(node.store, 100)
    positions: list[Position] = [START]
    events: list[Event] = []
    while await feed.oldest() == START:
        events += (added := await written(node.store, 5, ["task.offered"] * 50))
        await copier.handle(added)
        positions += [entry.position for entry in await feed.read(positions[-1], 100)]
    oldest = await feed.oldest()
    kept = [event.entity for event in events][positions.index(oldest) :]
    assert 100 <= len(kept) <= 100 + SLACK
    assert [entry.entity for entry in await feed.read(oldest, 1000)] == kept
    for position in positions[: positions.index(oldest)]:
        with pytest.raises(CursorTooOld) as too_old:
            await feed.read(position, 1)
        assert too_old.value.oldest == oldest


async def test_a_feed_that_is_lost_begins_again_where_it_was_trimmed_last(node: NodeUnderTest) -> None:
    """A Redis that evicts may lose only the feed. Otherwise streams that resume would ask again and again, without a
    pause.
    """
    feed, copier = FeedStore(node.store), FeedCopier(node.store, 100)
    while await feed.oldest() == START:
        await copier.handle(await written(node.store, 5, ["task.offered"] * 50))
    last = await feed.newest()
    await node.store.command("DEL", keys.FEED)
    for position in (START, last):
        with pytest.raises(CursorTooOld) as too_old:
            await feed.read(position, 1)
        assert await feed.read(too_old.value.oldest, 1) == []
    assert await feed.read(await feed.newest(), 1) == []


async def test_an_entry_that_is_no_event_holds_up_no_outbox(node: NodeUnderTest) -> None:
    """A copy reads all outboxes, so an entry that stopped it would stop the feed."""
    copier, feed = FeedCopier(node.store, 100_000), FeedStore(node.store)
    for torn in (("id", ids.new_id(17)), ("type", "thread.posted"), ("type", b"\xff", "id", "x")):
        await node.store.command("XADD", keys.events(17), "*", *torn)
    await node.store.command("XADD", keys.events(17), "*", "type", "reply.posted", "id", "x", "seq", "last")
    (event,) = await written(node.store, 5, ["thread.posted"])
    await copier.handle([event])
    assert ("thread.posted", event.entity) in await everything(feed)
