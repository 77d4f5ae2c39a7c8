"""What the loss of a primary costs callers, and for how long."""

import asyncio
from collections.abc import Callable

import pytest

from node.store import OutcomeUnknown, Store, StoreUnavailable, keys
from node.store.due import take_due
from node.store.keys import PARTITIONS, tag
from node.store.slots import slot_of
from node.store.store import SHARE_OF_CALLS
from tests.cluster.conftest import TIMEOUT, Load
from tests.store.conftest import Opener, step
from tests.support.servers import Cluster, eventually

COUNT = step("count", "return redis.call('INCR', key1)")
Record = Callable[[str, object], None]


async def progress(load: Load, calls: int) -> None:
    """Return once every partition has been served `calls` times more."""
    goal = {partition: seen + calls for partition, seen in load.acknowledged.items()}
    await eventually(lambda: all(load.acknowledged[partition] >= seen for partition, seen in goal.items()))


async def test_a_killed_primary_costs_errors_only_until_its_replica_has_taken_over(
    mortal_cluster: Cluster, record_property: Record, open_store: Opener
) -> None:
    store = await open_store(mortal_cluster.url, timeout=TIMEOUT)
    loop = asyncio.get_running_loop()
    async with Load(store, COUNT, "key") as load:
        await progress(load, 20)
        assert load.failures == []
        killed_at = loop.time()
        mortal_cluster.servers[0].kill()
        await progress(load, 20)
        restored_at = loop.time()
        seen = len(load.failures)
        await progress(load, 100)
        assert len(load.failures) == seen, "no error once every partition is served again"
    assert all(isinstance(error, StoreUnavailable) for _, error in load.failures)
    unknown = [error for _, error in load.failures if isinstance(error, OutcomeUnknown)]
    assert len(unknown) <= PARTITIONS, "a call's outcome is unknown only if it was under way at the kill"
    lost = 0
    for partition, acknowledged in load.acknowledged.items():
        reply = await store.command("GET", f"key:{tag(partition)}")
        assert isinstance(reply, bytes)
        assert int(reply) <= acknowledged + 1, "at most the call with the unknown outcome beyond what was acknowledged"
        lost += max(0, acknowledged - int(reply))
    record_property("errors_for_s", max((at for at, _ in load.failures), default=killed_at) - killed_at)
    record_property("all_served_after_s", restored_at - killed_at)
    record_property("errors", len(load.failures))
    record_property("outcome_unknown", len(unknown))
    record_property("acknowledged", load.calls)
    record_property("acknowledged_but_lost_by_asynchronous_replication", lost)


async def test_a_planned_handover_costs_no_call_and_no_write(cluster: Cluster, store: Store) -> None:
    replica = cluster.replica_of(cluster.primary_of(slot_of(tag(0))))
    async with Load(store, COUNT, "handover") as load:
        await progress(load, 10)
        replica.do("CLUSTER", "FAILOVER")
        await eventually(lambda: replica.info("replication")["role"] == "master")
        await progress(load, 20)
    assert load.failures == []
    for partition, acknowledged in load.acknowledged.items():
        assert await store.command("GET", f"handover:{tag(partition)}") == str(acknowledged).encode()


async def test_a_frozen_primary_costs_others_nothing(cluster: Cluster, store: Store) -> None:
    frozen = cluster.primary_of(slot_of(tag(0)))
    others = [p for p in range(PARTITIONS) if cluster.primary_of(slot_of(tag(p))) is not frozen]
    frozen.pause()
    answers = await asyncio.gather(*(store.command("SET", f"frozen:{tag(p)}", p) for p in others))
    frozen.resume()
    assert answers == [b"OK"] * len(others)


async def test_a_lost_primary_loses_nothing_of_what_others_answer(lenient_cluster: Cluster, open_store: Opener) -> None:
    # Four calls at a time.
    store = await open_store(lenient_cluster.url, timeout=TIMEOUT, max_in_flight=4 * SHARE_OF_CALLS)
    steps = [COUNT(f"answered:{tag(partition)}", 1) for partition in range(PARTITIONS)]
    primary = [lenient_cluster.primary_of(slot_of(tag(partition))) for partition in range(PARTITIONS)]
    await asyncio.to_thread(lenient_cluster.lose, primary[0])
    replies = await store.run_reachable(steps)
    for partition, reply in enumerate(replies):
        assert isinstance(reply, StoreUnavailable) if primary[partition] is primary[0] else reply == 1
    (reply,) = await store.run_reachable(steps[:1])
    assert isinstance(reply, StoreUnavailable), "others can be reached"
    with pytest.raises(StoreUnavailable):
        await take_due(store, {0: keys.callbacks_due(0)}, 1)
