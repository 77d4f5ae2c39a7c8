"""An in-memory store, for tests that need thousands of steps or a clock of their own. All other tests use a real Redis.

As in a cluster, all keys of a step must be in one slot.
"""

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, cast
from unittest.mock import patch

import fakeredis
from fakeredis._socket import _base as expiry  # pyright: ignore[reportPrivateUsage]
from fakeredis.commands_mixins import server_mixin as server

from node.store import Arg, RedisReply, Stats, Store, StoreUnavailable, WakeUps
from node.store.address import Access
from node.store.connection import Call, Connection
from node.store.steps import Step
from node.store.store import Wanted

Commands = Any
"""A fakeredis client, whose own types are incomplete."""


class FakeStore(Store):
    """A Store on one fakeredis server."""

    def __init__(self) -> None:
        super().__init__(timeout=1.0, max_in_flight=1)
        self.redis: Commands = fakeredis.FakeStrictRedis(version=(7,), protocol=2)
        self.redis.response_callbacks.clear()  # replies as Redis sends them
        self.wakeups = WakeUps(lambda _: None, Access(), 1.0, Stats())

    async def run(self, step: Step) -> RedisReply:
        return self._run(step)

    def send(self, wanted: Wanted) -> None:
        if isinstance(wanted, Step):
            self._run(wanted)
        else:
            self.redis.execute_command(*wanted)

    def send_ahead(self, make: Callable[[], Iterable[Wanted]]) -> None:
        for wanted in make():
            self.send(wanted)

    def _run(self, step: Step) -> RedisReply:
        tags = {key[key.index("{") : key.index("}")] for key in step.keys}
        assert len(tags) == 1, f"{step.script.name}: {step.keys}"
        # fakeredis supports neither the #!lua line nor set_repl, and has no log.
        source = "redis.set_repl = function() end\n" + step.script.single_source.partition("\n")[2]
        return cast("RedisReply", self.redis.execute_command("EVAL", source, len(step.keys), *step.keys, *step.args))

    async def command(self, *args: Arg, key: Arg | None = None) -> RedisReply:
        return cast("RedisReply", self.redis.execute_command(*args))

    async def run_all(self, many: Iterable[Wanted]) -> list[RedisReply]:
        return [self._run(each) if isinstance(each, Step) else await self.command(*each) for each in many]

    async def run_reachable(self, many: Iterable[Wanted]) -> list[RedisReply | StoreUnavailable]:
        return [*await self.run_all(many)]

    async def everywhere(self, *args: Arg) -> list[RedisReply]:
        return [cast("RedisReply", self.redis.execute_command(*args))]

    def server_id(self, key: Arg) -> int:
        return 0

    async def close(self) -> None:
        self.redis.close()

    async def ready(self) -> bool:
        return True

    @property
    def connected(self) -> bool:
        return True

    def _connections(self) -> Sequence[Connection]:
        return ()

    def _route(self, key: Arg) -> tuple[int, Connection]:
        raise LookupError("a fake has no connection")

    async def _retry(self, call: Call, outcome: Exception, connection: Connection) -> RedisReply:
        raise outcome


class Clock:
    """The clock of every fakeredis in the process while it is `installed`."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self._stopped_at = int(time.time())  # a whole second, so that milliseconds are exact

    def time(self) -> float:
        """Return seconds since 1970. The clock moves only when a test moves it."""
        return self._stopped_at + self._ahead

    def advance(self, seconds: float) -> None:
        self._ahead += seconds

    @classmethod
    @contextmanager
    def installed(cls) -> Generator["Clock"]:
        """Make fakeredis use this clock for TIME and for TTLs until the end of the block."""
        clock = cls()
        with patch.object(server, "time", clock), patch.object(expiry, "time", clock):
            yield clock
