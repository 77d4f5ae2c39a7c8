"""One primary of three and its replica are gone for good: workers go on with what the others keep."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from node.events.feed import FeedCopier, FeedStore
from node.events.source import START
from node.retention.sweep import Retention, RetentionRule, Trim
from node.sign.node_key import NodeKey
from node.store import StoreUnavailable, keys
from node.store.ids import new_id, partition_of_id
from node.store.keys import PARTITIONS, tag
from node.store.outbox import Event
from node.store.slots import slot_of
from tests.callbacks.receiver import Receiver
from tests.faults.writers import unlimited
from tests.store.conftest import Opener
from tests.support.node_under_test import SIGNING_KEY, running, until
from tests.support.servers import Cluster, eventually

CONTRACTS = 48  # the chance that a given primary is home to none of them is one in 280 million
TASKS = "/api/v1/tasks"
LASTS = timedelta(hours=1)
"""Time from an offer to its deadline, unless the test brings it forward."""


async def test_contracts_expire_and_callbacks_tell_of_them(lenient_cluster: Cluster) -> None:
    settings = unlimited(lenient_cluster.url, store_timeout=5.0, callback_allow_private=True)
    key = NodeKey.parse(SIGNING_KEY).public.raw
    async with running(settings) as node, Receiver(key) as receiver, node.worker():
        offered: set[str] = set()
        for number in range(CONTRACTS):
            offer = {
                "publisher_id": "desk",
                "title": f"Count the panels on photograph {number}",
                "deadline": (datetime.now(UTC) + LASTS).isoformat(),
                "callback_url": receiver.url_at(f"/{number}"),
            }
            offered.add((await node.client.post(TASKS, json=offer)).json()["id"])
        lost = await _lose_one(lenient_cluster, offered)
        for each in offered - lost:
            await node.store.command("HSET", keys.task(each), "deadline", 1)
            await node.store.command("ZADD", keys.leases(partition_of_id(each)), 1, each)

        def told() -> set[str]:
            return {message["data"]["task_id"] for _, message in receiver.messages if message["type"] == "task.expired"}

        await eventually(lambda: told() >= offered - lost)
        assert told() == offered - lost


async def test_retention_goes_on_with_the_lists_that_can_be_read(lenient_cluster: Cluster, open_store: Opener) -> None:
    store = await open_store(lenient_cluster.url, timeout=2.0)
    handled: list[str] = []

    async def handle(members: Sequence[str], before: int) -> int:
        handled.extend(members)
        return len(members)

    lists = [f"old:{tag(partition)}" for partition in range(PARTITIONS)]
    victim = lenient_cluster.primary_of(slot_of(lists[0]))
    for listed in lists:
        await store.command("ZADD", listed, 1, listed)
    await asyncio.to_thread(lenient_cluster.lose, victim)
    retention = Retention(
        store, [RetentionRule("old", listed, 1, handle) for listed in lists], [Trim("old-stream:{00}", 1)]
    )

    async def looked() -> bool:
        with suppress(StoreUnavailable):  # possible until the loss is noticed
            await retention.look(30)
        return bool(handled)

    await until(looked)
    assert set(handled) == {each for each in lists if lenient_cluster.primary_of(slot_of(each)) is not victim}


async def _lose_one(cluster: Cluster, entities: Collection[str]) -> set[str]:
    """Kill a primary that keeps some of these entities, and its replica. Returns the lost entities."""
    listing = {cluster.primary_of(slot_of(keys.tasks_with(status))) for status in ("offered", "expired")}
    victim = next(server for server in cluster.servers[:3] if server not in listing)
    lost = {each for each in entities if cluster.primary_of(slot_of(tag(partition_of_id(each)))) is victim}
    assert lost
    assert lost < set(entities)
    await asyncio.to_thread(cluster.lose, victim)
    return lost


async def test_the_feed_goes_on_and_no_event_that_cannot_be_read_is_taken_for_copied(
    lenient_cluster: Cluster, open_store: Opener
) -> None:
    store = await open_store(lenient_cluster.url, timeout=5.0)
    feed = lenient_cluster.primary_of(slot_of(keys.FEED))
    victim = next(server for server in lenient_cluster.servers[:3] if server is not feed)
    homes = {partition: lenient_cluster.primary_of(slot_of(tag(partition))) for partition in range(PARTITIONS)}
    events: dict[bool, Event] = {}
    for is_lost in (True, False):
        partition = next(each for each, home in homes.items() if (home is victim) is is_lost)
        entity = new_id(partition)
        entry = await store.command("XADD", keys.events(partition), "*", "type", "thread.posted", "id", entity)
        assert isinstance(entry, bytes)
        events[is_lost] = Event(entry.decode(), partition, "thread.posted", entity, {})
    await asyncio.to_thread(lenient_cluster.lose, victim)
    copier = FeedCopier(store, 1000)
    with pytest.raises(StoreUnavailable):
        await copier.handle([events[True]])
    await copier.handle([events[False]])
    assert [entry.entity for entry in await FeedStore(store).read(START, 10)] == [events[False].entity]
