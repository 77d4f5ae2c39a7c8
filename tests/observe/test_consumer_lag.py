"""The lag of consumer groups: the age of the oldest event that is not acknowledged, in any partition."""

from collections.abc import Sequence
from typing import cast

from node.observe.consumer_lag import lags
from node.store import keys
from node.store.clock import now_ms
from tests.support.node_under_test import NodeUnderTest

SOME, OTHER = 7, 8
"""Two partitions."""


async def happened(node: NodeUnderTest, partition: int, *ages: int) -> list[bytes]:
    """Add events that happened this many seconds ago, the oldest first. Returns their ids."""
    stream = keys.events(partition)
    now = await now_ms(node.store, stream)
    return [
        cast("bytes", await node.store.command("XADD", stream, f"{now - age * 1000}-0", "type", "t")) for age in ages
    ]


async def read_by(node: NodeUnderTest, group: str, partition: int, count: int, done: Sequence[bytes] = ()) -> None:
    """Create a group that has read the first events of a partition, and has acknowledged some of them."""
    stream = keys.events(partition)
    await node.store.command("XGROUP", "CREATE", stream, group, "0", key=stream)
    if count:
        read = ("XREADGROUP", "GROUP", group, "me", "COUNT", count, "STREAMS", stream, ">")
        await node.store.command(*read, key=stream)
    if done:
        await node.store.command("XACK", stream, group, *done)


async def test_the_oldest_event_that_is_not_done_with_counts(node: NodeUnderTest) -> None:
    events = await happened(node, SOME, 3000, 2000, 1000)
    await read_by(node, "has read none", SOME, 0)
    await read_by(node, "has read two", SOME, 2)
    await read_by(node, "is done with two", SOME, 2, events[:2])
    await read_by(node, "is done with all", SOME, 3, events)
    await happened(node, OTHER, 500)
    await read_by(node, "has read two", OTHER, 0)
    found = {lag.group: (lag.waiting, lag.unacknowledged, lag.oldest_seconds // 1000) for lag in await lags(node.store)}
    assert found == {
        "has read none": (3, 0, 3),
        "has read two": (2, 2, 3),
        "is done with two": (1, 0, 1),
        "is done with all": (0, 0, 0),
    }


async def test_a_group_whose_lag_redis_does_not_know_has_something_waiting(node: NodeUnderTest) -> None:
    _, deleted, _ = await happened(node, SOME, 30, 20, 10)
    await read_by(node, "group", SOME, 1)
    await node.store.command("XDEL", keys.events(SOME), deleted)
    (lag,) = await lags(node.store)
    assert lag.waiting == 1


async def test_without_events_there_are_no_groups(node: NodeUnderTest) -> None:
    assert await lags(node.store) == []
