"""A store in which something happens between two commands of a reader."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from node.store import Arg, RedisReply, Store
from node.store.steps import Step
from node.store.store import Wanted


class Interrupted:
    """The part of a store that readers use. `happens` runs once, after the first command."""

    def __init__(self, store: Store, happens: Callable[[], Awaitable[object]], first: int = 0) -> None:
        """`first`: index of the command after which `happens` runs, where several commands are given together."""
        self._store = store
        self._happens = happens
        self._first = first
        self._is_over = False

    def __getattr__(self, name: str) -> Any:
        """Pass everything else through unchanged."""
        return getattr(self._store, name)

    async def command(self, *args: Arg) -> RedisReply:
        reply = await self._store.command(*args)
        if not self._is_over:
            self._is_over = True
            await self._happens()
        return reply

    async def run_all(self, many: Iterable[Wanted]) -> list[RedisReply]:
        wanted = list(many)
        commands = [each for each in wanted if not isinstance(each, Step)]
        if not commands:
            return await self._store.run_all(wanted)
        first = min(self._first, len(commands) - 1)
        reply = await self.command(*commands.pop(first))
        others = await self._store.run_all(commands)
        return [*others[:first], reply, *others[first:]]
