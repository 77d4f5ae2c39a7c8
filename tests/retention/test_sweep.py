"""Retention walks through a list from its oldest member, and handles everything that is old."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest
from structlog.testing import capture_logs

from node.retention.sweep import Retention, RetentionRule, Trim
from node.store import Arg, RedisReply, StoreUnavailable, keys
from node.store.clock import now_ms
from node.store.cursor import TimeCursor
from tests.support.node_under_test import NodeUnderTest


async def test_a_walk_meets_every_member_once_though_many_have_one_time(node: NodeUnderTest) -> None:
    for number in range(25):
        await node.store.command("ZADD", keys.OPEN_THREADS, 5 if number < 20 else number, f"t{number:02}")
    walk = TimeCursor(node.store, keys.OPEN_THREADS)
    met: list[str] = []
    while found := await walk.next(22, 7):
        met += found
        await node.store.command("ZREM", keys.OPEN_THREADS, found[0])
    assert sorted(met) == [f"t{number:02}" for number in range(23)]
    assert list(await walk.next(24, 7)) == ["t23", "t24"]
    await node.store.command("ZADD", keys.OPEN_THREADS, 25, "t24")
    assert list(await walk.next(25, 7)) == ["t24"], "its time is another one now"
    walk.restart()
    assert len(await walk.next(25, 100)) == 25 - 4
    await node.store.command("DEL", keys.OPEN_THREADS)


async def test_all_that_is_old_is_handled_at_last(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.retention.sweep.BATCH_SIZE", 2)
    names = [f"t{number}" for number in range(5)]
    for number, name in enumerate(names):
        await node.store.command("ZADD", keys.OPEN_THREADS, number, name)
    handled: list[str] = []

    async def handle(members: Sequence[str], before: int) -> int:
        handled.extend(members)
        if len(handled) == 4:
            raise StoreUnavailable("out of reach")
        return len(members)

    retention = Retention(node.store, [RetentionRule("test", keys.OPEN_THREADS, 1, handle)], [])
    assert await retention.look(20) == 2
    assert await retention.look(20) == 5
    assert handled == [*names[:4], *names]
    await node.store.command("DEL", keys.OPEN_THREADS)


async def test_what_is_listed_late_is_met_soon(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is behind adds members that are already due, before the place that the walk has reached."""
    monkeypatch.setattr("node.retention.sweep.MIN_RESTART_SECONDS", 0.0)
    monkeypatch.setattr("node.retention.sweep.BATCH_SIZE", 2)
    for number in range(5):
        await node.store.command("ZADD", keys.OPEN_THREADS, 10 + number, f"t{number}")
    handled: list[str] = []

    async def handle(members: Sequence[str], before: int) -> int:
        handled.extend(members)
        return 0

    retention = Retention(node.store, [RetentionRule("test", keys.OPEN_THREADS, 0, handle)], [])
    await retention.look(20)
    assert handled == [f"t{number}" for number in range(5)]  # the walk does not restart before its end
    await node.store.command("ZADD", keys.OPEN_THREADS, 9, "late")
    await retention.look(20)
    assert handled[5:] == ["late", *(f"t{number}" for number in range(5))]
    await node.store.command("DEL", keys.OPEN_THREADS)


async def test_one_that_cannot_be_handled_keeps_no_other(node: NodeUnderTest) -> None:
    """Otherwise the members read together with it would be skipped at every look."""
    names = [f"t{number}" for number in range(5)]
    for name in names:
        await node.store.command("ZADD", keys.OPEN_THREADS, 1, name)
    handled: list[str] = []

    async def handle(members: Sequence[str], before: int) -> int:
        if "t2" in members:
            raise ValueError("of a later version")
        handled.extend(members)
        return len(members)

    retention = Retention(node.store, [RetentionRule("test", keys.OPEN_THREADS, 1, handle)], [])
    with capture_logs() as logs:
        assert await retention.look(20) == 4
    assert handled == ["t0", "t1", "t3", "t4"]
    assert [(line["rule"], line["member"]) for line in logs if line["event"] == "retention failed"] == [("test", "t2")]
    await node.store.command("DEL", keys.OPEN_THREADS)


@pytest.mark.parametrize("failure", [None, StoreUnavailable("did not answer in time")])
async def test_what_takes_all_of_one_look_leaves_the_next_one_to_others(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, failure: Exception | None
) -> None:
    """A long list, or one whose server does not answer, must not make the others wait until it is done."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("node.retention.sweep.time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr("node.retention.sweep.BATCH_SIZE", 1)
    for listed in (keys.OPEN_THREADS, keys.CLOSED_THREADS):
        await node.store.command("ZADD", listed, 1, f"{listed} 1", 2, f"{listed} 2")
    handled: list[str] = []

    async def slow(members: Sequence[str], before: int) -> int:
        clock.now += 1.0
        if failure:
            raise failure
        return 0

    async def quick(members: Sequence[str], before: int) -> int:
        handled.extend(members)
        return 0

    rules = [RetentionRule("slow", keys.OPEN_THREADS, 1, slow), RetentionRule("quick", keys.CLOSED_THREADS, 1, quick)]
    retention = Retention(node.store, rules, [])
    await retention.look(1.0)
    assert handled == []
    await retention.look(1.0)
    assert handled == [f"{keys.CLOSED_THREADS} 1"]
    await node.store.run_all([("DEL", keys.OPEN_THREADS), ("DEL", keys.CLOSED_THREADS)])


async def test_a_list_is_read_again_after_a_minute_and_trims_come_once_an_hour(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds however short the periods of the rules are, because a list may have many members that stay."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("node.retention.sweep.time", SimpleNamespace(monotonic=lambda: clock.now))
    await node.store.command("ZADD", keys.OPEN_THREADS, 1, "t")
    handled: list[float] = []

    async def handle(members: Sequence[str], before: int) -> int:
        handled.append(clock.now)
        return 0

    retention = Retention(node.store, [RetentionRule("test", keys.OPEN_THREADS, 1e-5, handle)], [Trim(keys.AUDIT, 1)])
    left: dict[float, RedisReply] = {}
    for number, clock.now in enumerate((0, 59, 60, 61, 62, 120, 121, 3599, 3600), 1):
        await node.store.command("XADD", keys.AUDIT, f"{number}-1", "what", "a test")
        await retention.look(20)
        left[clock.now] = await node.store.command("XLEN", keys.AUDIT)
    assert handled == [0, 61, 121, 3600]
    assert [at for at, length in left.items() if length == 0] == [0, 3600]
    await node.store.run_all([("DEL", keys.OPEN_THREADS), ("DEL", keys.AUDIT)])


async def test_what_is_kept_for_a_hundred_years_is_kept(node: NodeUnderTest) -> None:
    """The cutoff is before 1970. Redis refuses such an entry id, which must not end retention."""
    days = 36_500
    await node.store.command("XADD", keys.AUDIT, "1-1", "what", "a test")
    await node.store.command("ZADD", keys.posters(3), 1, "a")
    await Retention(node.store, [], [Trim(keys.AUDIT, days), Trim(keys.posters(3), days, sorted_set=True)]).look(20)
    assert await node.store.run_all([("XLEN", keys.AUDIT), ("ZCARD", keys.posters(3))]) == [1, 1]
    await node.store.run_all([("DEL", keys.AUDIT), ("DEL", keys.posters(3))])


async def test_what_is_old_in_a_sorted_set_is_removed_some_at_a_time(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.retention.sweep.TRIMMED_AT_ONCE", 2)
    trimmed = keys.posters(3)
    kept = await now_ms(node.store)
    await node.store.command("ZADD", trimmed, 1, "a", 2, "b", 2, "c", 2, "d", 3, "e", kept, "f")
    most: list[int] = []
    command = node.store.command

    async def noted(*args: Arg, key: Arg | None = None) -> RedisReply:
        reply = await command(*args, key=key)
        if args[:2] == ("ZREM", trimmed):
            most.append(cast("int", reply))
        return reply

    monkeypatch.setattr(node.store, "command", noted)
    await Retention(node.store, [], [Trim(trimmed, 1, sorted_set=True)]).look(20)
    assert most == [2, 2, 1]
    assert await node.store.command("ZRANGE", trimmed, 0, -1) == [b"f"]
