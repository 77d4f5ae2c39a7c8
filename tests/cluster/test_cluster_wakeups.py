"""In a cluster, wake-ups follow their slot."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack

import pytest_asyncio

from node.store import Listener, Store
from node.store.keys import PARTITIONS, tag
from node.store.slots import slot_of
from tests.cluster.conftest import TIMEOUT, slots_in_use
from tests.store.conftest import Opener, step
from tests.support.servers import PATIENCE, Cluster

PUBLISH = step("publish", "redis.call('SPUBLISH', key1, arg1) return 1", args=1)
CHANNELS = [f"thread:{tag(partition)}:1" for partition in range(PARTITIONS)]


@pytest_asyncio.fixture
async def listeners(store: Store) -> AsyncIterator[dict[str, Listener]]:
    with ExitStack() as stack:
        yield {channel: stack.enter_context(await store.wakeups.listen(channel)) for channel in CHANNELS}


async def heard(store: Store, listeners: dict[str, Listener]) -> None:
    """Check that each listener hears its channel, publishing again whenever it is told to look."""

    async def hear(channel: str, listener: Listener) -> None:
        async with asyncio.timeout(PATIENCE):
            while await listener.next(0.5) != channel.encode():
                await store.run(PUBLISH(channel, channel))

    for channel, listener in listeners.items():
        await store.run(PUBLISH(channel, channel))
        await hear(channel, listener)


async def test_a_listener_hears_its_channel_wherever_the_slot_is(store: Store, listeners: dict[str, Listener]) -> None:
    for channel, listener in listeners.items():
        await store.run(PUBLISH(channel, "message"))
        assert await listener.next(PATIENCE) == b"message"


async def test_listeners_follow_a_slot_that_moves_and_are_told_to_look(
    cluster: Cluster, store: Store, listeners: dict[str, Listener]
) -> None:
    moved = slots_in_use()[:5]
    for slot in moved:
        source = cluster.primary_of(slot)
        target = next(server for server in cluster.servers[:3] if server is not source)
        await asyncio.to_thread(cluster.move, slot, target)
    for channel, listener in listeners.items():
        if slot_of(channel) in moved:
            assert await listener.next(PATIENCE) == b""
    await heard(store, listeners)


async def test_who_only_listens_learns_where_a_slot_has_moved(
    cluster: Cluster, store: Store, open_store: Opener
) -> None:
    only_listens = await open_store(cluster.url, timeout=TIMEOUT)
    slot = slots_in_use()[0]
    source = cluster.primary_of(slot)
    target = next(server for server in cluster.servers[:3] if server is not source)
    await asyncio.to_thread(cluster.move, slot, target)
    channel = next(channel for channel in CHANNELS if slot_of(channel) == slot)
    with await only_listens.wakeups.listen(channel) as listener:
        await heard(store, {channel: listener})


async def test_listeners_follow_a_failover(mortal_cluster: Cluster, open_store: Opener) -> None:
    store = await open_store(mortal_cluster.url, timeout=TIMEOUT)
    with ExitStack() as stack:
        listeners = {channel: stack.enter_context(await store.wakeups.listen(channel)) for channel in CHANNELS}
        mortal_cluster.servers[1].kill()
        for channel, listener in listeners.items():
            if 5461 <= slot_of(channel) <= 10921:
                assert await listener.next(PATIENCE) == b""
        await heard(store, listeners)
