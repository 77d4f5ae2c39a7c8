"""Events that every group has acknowledged are trimmed, and consumers that no longer exist are deleted (DESIGN 4)."""

import asyncio
from collections.abc import Sequence

import pytest

from node.store import Store, keys
from node.store.ids import PARTITIONS
from node.store.outbox import OutboxTrimmer
from tests.store.outbox import GROUP, STREAM, Seen, held_by_the_dead, pending, raw, reading, set_back, silence, write
from tests.support.node_under_test import until
from tests.support.servers import RedisServer, eventually


class TestOutboxTrimmer:
    """An outbox keeps the events that some group has not acknowledged."""

    async def lengths(self, store: Store, server: RedisServer, groups: Sequence[str]) -> tuple[int, bytes]:
        """Return the length of the outbox after trimming, and the id of its oldest event."""
        await OutboxTrimmer(store, groups).trim(STREAM)
        return server.do("XLEN", STREAM), raw(server, "XRANGE", STREAM, "-", "+", "COUNT", 1)[0][0]

    async def acknowledge(self, server: RedisServer, group: str, ids: Sequence[bytes], stream: str = STREAM) -> None:
        server.do("XGROUP", "CREATE", stream, group, "0")
        server.do("XREADGROUP", "GROUP", group, "reader", "COUNT", len(ids), "STREAMS", stream, ">")
        server.do("XACK", stream, group, *ids)

    async def test_only_what_all_groups_acknowledged_is_forgotten(
        self, store: Store, redis_server: RedisServer
    ) -> None:
        redis_server.do("CONFIG", "SET", "stream-node-max-entries", 1)
        ids = await write(store, *map(str, range(10)))
        await self.acknowledge(redis_server, "fast", ids)
        await self.acknowledge(redis_server, "slow", ids[:6])
        assert await self.lengths(store, redis_server, ["fast", "slow"]) == (4, ids[6])

    async def test_an_event_that_somebody_holds_is_kept_with_all_that_follow(
        self, store: Store, redis_server: RedisServer
    ) -> None:
        redis_server.do("CONFIG", "SET", "stream-node-max-entries", 1)
        ids = await write(store, *map(str, range(10)))
        redis_server.do("XGROUP", "CREATE", STREAM, "one", "0")
        redis_server.do("XREADGROUP", "GROUP", "one", "reader", "STREAMS", STREAM, ">")
        redis_server.do("XACK", STREAM, "one", *ids[:3], *ids[4:8], ids[9])
        assert await self.lengths(store, redis_server, ["one"]) == (7, ids[3])

    @pytest.mark.parametrize("slow", ["a", "c"])
    @pytest.mark.parametrize("ids", [[b"5-1", b"5-2", b"5-3"], [b"5-8", b"5-9", b"6-1"]])
    async def test_groups_that_differ_within_a_millisecond_or_by_more_keep_what_the_slower_needs(
        self, store: Store, redis_server: RedisServer, ids: Sequence[bytes], slow: str
    ) -> None:
        redis_server.do("CONFIG", "SET", "stream-node-max-entries", 1)
        for each in ids:
            redis_server.do("XADD", STREAM, each, "type", "x")
        await self.acknowledge(redis_server, "b", ids)
        await self.acknowledge(redis_server, slow, ids[:1])
        assert await self.lengths(store, redis_server, ["b", slow]) == (2, ids[1])

    @pytest.mark.parametrize("joined", ["first", "second"])
    async def test_nothing_is_forgotten_before_every_group_has_joined(
        self, store: Store, redis_server: RedisServer, joined: str
    ) -> None:
        redis_server.do("CONFIG", "SET", "stream-node-max-entries", 1)
        ids = await write(store, *map(str, range(10)))
        await self.acknowledge(redis_server, joined, ids)
        assert await self.lengths(store, redis_server, ["first", "second"]) == (10, ids[0])

    async def test_every_outbox_is_trimmed_while_a_worker_runs(self, store: Store, redis_server: RedisServer) -> None:
        redis_server.do("CONFIG", "SET", "stream-node-max-entries", 1)
        outboxes = [keys.events(0), keys.events(PARTITIONS - 1)]
        for stream in outboxes:
            await self.acknowledge(redis_server, GROUP, await write(store, "a", "b", stream=stream), stream)

        async def are_empty() -> bool:
            return not any(redis_server.do("XLEN", stream) for stream in outboxes)

        stop = asyncio.Event()
        trimming = asyncio.create_task(OutboxTrimmer(store, [GROUP]).run(stop))
        await until(are_empty)
        stop.set()
        await trimming

    async def test_an_outbox_that_does_not_exist_is_not_made(self, store: Store, redis_server: RedisServer) -> None:
        await OutboxTrimmer(store, [GROUP]).trim(STREAM)
        assert redis_server.do("EXISTS", STREAM) == 0

    async def test_readers_silent_for_two_minutes_are_forgotten_unless_they_hold_something(
        self, store: Store, redis_server: RedisServer
    ) -> None:
        ids = await write(store, "a", "b")
        redis_server.do("XGROUP", "CREATE", STREAM, GROUP, "0")
        for reader in ("idle", "holding"):
            redis_server.do("XREADGROUP", "GROUP", GROUP, reader, "COUNT", 1, "STREAMS", STREAM, ">")
        redis_server.do("XACK", STREAM, GROUP, ids[0])
        await OutboxTrimmer(store, [GROUP]).trim(STREAM)
        assert names(redis_server) == {b"idle", b"holding"}
        silence(redis_server, minutes=2)
        await OutboxTrimmer(store, [GROUP]).trim(STREAM)
        assert names(redis_server) == {b"holding"}

    async def test_what_was_delivered_before_the_clock_was_set_back_is_taken_over(
        self, store: Store, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen = Seen()
        monkeypatch.setattr("node.store.outbox.STALE_MS", 1)
        monkeypatch.setattr("node.store.outbox.TAKE_OVER_SECONDS", 0.0)
        await write(store, "a", "b")
        held_by_the_dead(redis_server, 2)
        set_back(redis_server)
        async with reading(store, seen):
            await write(store, "c")
            await eventually(lambda: seen.entities == {"c"} and pending(redis_server) == 2)
            await OutboxTrimmer(store, [GROUP]).trim(STREAM)
            await write(store, "d")
            await eventually(lambda: seen.entities == {"a", "b", "c", "d"} and pending(redis_server) == 0)


def names(server: RedisServer) -> set[bytes]:
    return {row[1] for row in raw(server, "XINFO", "CONSUMERS", STREAM, GROUP)}
