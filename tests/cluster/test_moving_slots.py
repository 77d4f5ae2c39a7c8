"""Resharding under load: callers notice a moving slot as a delay and nothing else."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from node.admin import backup
from node.admin.backup import BackupError, back_up
from node.config import Settings
from node.store import CommandFailed, OutcomeUnknown, Store, StoreUnavailable
from node.store.address import Location, ServerAddress
from node.store.slots import slot_of
from node.store.snapshot import snapshot
from tests.cluster.conftest import TIMEOUT, Load, slots_in_use
from tests.store.conftest import Opener, StepOf, step
from tests.support.servers import Cluster, RedisServer, eventually, until

COUNT = step("count", "return redis.call('INCR', key1)")
COUNT_TWO = step("count_two", "redis.call('INCR', key2) return redis.call('INCR', key1)", keys=2)
COUNT_MADE = step("count_made", "redis.call('SET', key2, 1) return redis.call('INCR', key1)", keys=2)
ECHO = step("echo", "return KEYS[1]")


def other_than(cluster: Cluster, owner: RedisServer) -> RedisServer:
    return next(server for server in cluster.servers[: cluster.primaries] if server is not owner)


async def values(store: Store, load: Load) -> list[dict[int, int]]:
    """Return the value of each of the load's keys, by partition."""
    found: list[dict[int, int]] = []
    for place in range(len(load.keys(0))):
        replies = {p: await store.command("GET", load.keys(p)[place]) for p in load.acknowledged}
        found.append({p: int(reply) for p, reply in replies.items() if isinstance(reply, bytes)})
    return found


async def test_each_call_goes_straight_to_the_primary_of_its_slot(cluster: Cluster, store: Store) -> None:
    for server in cluster.servers:
        server.do("CONFIG", "RESETSTAT")
    async with Load(store, ECHO, "straight") as load:
        await eventually(lambda: load.calls > 500)
    assert load.failures == []
    for server in cluster.servers:
        assert "errorstat_MOVED" not in server.info("errorstats")
    assert all(server.info("commandstats")["cmdstat_evalsha"]["calls"] for server in cluster.servers[:3])


async def test_a_command_for_every_primary_reaches_each_once(store: Store) -> None:
    assert await store.everywhere("PING") == [b"PONG"] * 3


async def test_many_commands_follow_the_slot_that_has_moved(cluster: Cluster, store: Store) -> None:
    keys = [f"many:{{{n:02x}}}" for n in range(64)]
    await store.run_all(("SET", key, key) for key in keys)
    slot = slot_of(keys[0])
    source = cluster.primary_of(slot)
    await asyncio.to_thread(cluster.move, slot, other_than(cluster, source))
    assert await store.run_all(("GET", key) for key in keys) == [key.encode() for key in keys]
    assert source.info("errorstats")["errorstat_MOVED"]["count"] >= 1


async def test_what_is_sent_without_waiting_follows_the_slot_that_has_moved(cluster: Cluster, store: Store) -> None:
    key = "sent:{2a}"
    store.send(COUNT(key))
    await asyncio.sleep(0)
    assert await store.command("GET", key) == b"1"
    source = cluster.primary_of(slot_of(key))
    await asyncio.to_thread(cluster.move, slot_of(key), target := other_than(cluster, source))
    for _ in range(10):
        store.send(COUNT(key))
        store.send(("INCR", key))
    await eventually(lambda: target.do("GET", key) == b"21")
    await eventually(lambda: store.stats.in_flight == 0)


async def test_one_living_member_among_the_given_ones_is_enough(cluster: Cluster, open_store: Opener) -> None:
    store = await open_store(f"redis+cluster://127.0.0.1:1,127.0.0.1:{cluster.servers[4].port}", timeout=TIMEOUT)
    assert await store.command("SET", "key:{2a}", "value") == b"OK"


@pytest.mark.parametrize(
    ("made", "names"), [(COUNT, ["one"]), (COUNT_TWO, ["two", "three"])], ids=["one-key", "two-keys"]
)
async def test_slots_that_move_under_load_cost_no_call_and_no_write(
    cluster: Cluster, store: Store, made: StepOf, names: list[str]
) -> None:
    for server in cluster.servers:
        server.do("CONFIG", "RESETSTAT")
    async with Load(store, made, *names) as load:
        for slot in slots_in_use()[:24]:
            source = cluster.primary_of(slot)
            target = other_than(cluster, source)
            await asyncio.to_thread(cluster.move, slot, target)
        seen = load.calls
        await eventually(lambda: load.calls > seen + 500)
    assert load.failures == []
    assert sum(server.info("errorstats").get("errorstat_MOVED", {"count": 0})["count"] for server in cluster.servers)
    for value in await values(store, load):
        assert value == load.acknowledged


async def test_a_new_key_of_a_moving_slot_is_made_where_the_slot_goes(cluster: Cluster, store: Store) -> None:
    slot = slot_of("ask")
    source = cluster.primary_of(slot)
    target = other_than(cluster, source)
    await store.command("SET", "{ask}:old", "old")
    cluster.begin_move(slot, target)
    assert await store.run(COUNT("{ask}:new")) == 1
    assert await store.command("GET", "{ask}:old") == b"old"
    assert source.do("DBSIZE") >= 1
    assert b"{ask}:new" in target.do("CLUSTER", "GETKEYSINSLOT", slot, 10)
    cluster.move_keys(slot, target)
    cluster.end_move(slot, target)
    assert await store.run(COUNT("{ask}:new")) == 2
    assert await store.command("GET", "{ask}:old") == b"old"


async def test_calls_of_one_turn_find_their_keys_on_both_sides_of_a_moving_slot(cluster: Cluster, store: Store) -> None:
    slot = slot_of("sides")
    target = other_than(cluster, cluster.primary_of(slot))
    for number in range(0, 20, 2):
        await store.run(COUNT(f"{{sides}}:{number}"))
    cluster.begin_move(slot, target)
    answers = await asyncio.gather(*(store.run(COUNT(f"{{sides}}:{number}")) for number in range(20)))
    assert answers == [2 - number % 2 for number in range(20)]
    cluster.move_keys(slot, target)
    cluster.end_move(slot, target)
    answers = await asyncio.gather(*(store.run(COUNT(f"{{sides}}:{number}")) for number in range(20)))
    assert answers == [3 - number % 2 for number in range(20)]


async def test_a_call_whose_keys_are_torn_apart_waits_and_is_refused_unwritten_if_they_stay_so(
    cluster: Cluster, store: Store, open_store: Opener
) -> None:
    hasty = await open_store(cluster.url, timeout=TIMEOUT)
    slot = slot_of("torn")
    target = other_than(cluster, cluster.primary_of(slot))
    await store.command("SET", "{torn}:here", 1)
    cluster.begin_move(slot, target)
    with pytest.raises(StoreUnavailable, match="moving") as refusal:
        await hasty.run(COUNT_TWO("{torn}:here", "{torn}:missing"))
    assert not isinstance(refusal.value, OutcomeUnknown)
    waiting = asyncio.create_task(store.run(COUNT_TWO("{torn}:here", "{torn}:missing")))
    await asyncio.to_thread(cluster.move_keys, slot, target)
    await asyncio.to_thread(cluster.end_move, slot, target)
    assert await waiting == 2
    assert await store.command("GET", "{torn}:missing") == b"1"


async def test_while_a_slot_moves_as_a_whole_new_keys_are_made_beside_old_ones(cluster: Cluster, store: Store) -> None:
    """Uses CLUSTER MIGRATESLOTS of Valkey 9. A slot that moves key by key refuses such calls (the previous test)."""
    slot = slot_of("whole")
    source = cluster.primary_of(slot)
    target = other_than(cluster, source)
    for begin in range(0, 20_000, 500):
        await store.run_all(("SET", f"{{whole}}:{number}", "x" * 100) for number in range(begin, begin + 500))

    def move() -> None:
        source.do("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", cluster.node_id(target))
        until(lambda: cluster.primary_of(slot) is target, "the slot has moved")

    moving, made = asyncio.create_task(asyncio.to_thread(move)), 0
    while not moving.done():
        made += 1
        assert await store.run(COUNT_MADE("{whole}", f"{{whole}}:made:{made}")) == made
    await moving
    assert await store.run(COUNT_MADE("{whole}", "{whole}:made:after")) == made + 1
    assert target.do("CLUSTER", "COUNTKEYSINSLOT", slot) == 20_000 + made + 2


async def test_a_script_error_in_a_cluster_is_still_our_bug(store: Store) -> None:
    await store.command("SET", "{text}", "text")
    with pytest.raises(CommandFailed, match="count: ERR"):
        await store.run(COUNT("{text}"))


async def test_a_backup_during_which_a_slot_has_moved_fails(
    cluster: Cluster, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys of the moved slot may be in none of the copies, so the backup must not be called whole."""
    slot = slot_of("moved:{07}")
    moves = [other_than(cluster, cluster.primary_of(slot))]

    async def copy_and_move(server: ServerAddress, location: Location, path: Path, take: Callable[[int], None]) -> int:
        size = await snapshot(server, location, path, take)
        if moves:
            await asyncio.to_thread(cluster.move, slot, moves.pop())
        return size

    monkeypatch.setattr(backup, "snapshot", copy_and_move)
    settings = Settings(redis_url=cluster.url, data_dir=tmp_path / "node")
    with pytest.raises(BackupError, match="slots of the Redis Cluster moved during the backup"):
        await back_up(settings, store, tmp_path / "backup", {})
    assert not (tmp_path / "backup").exists()
    assert len((await back_up(settings, store, tmp_path / "backup", {})).redis) == cluster.primaries
