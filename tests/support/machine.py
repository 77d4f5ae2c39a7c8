"""Base of the state machines: an in-memory store with a clock that tests move, and steps that may be refused."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from node.common.refusal import Refused
from tests.support.fake_store import Clock, FakeStore

T = TypeVar("T")


class StoreMachine(RuleBasedStateMachine):
    """A state machine with such a store; its time is in seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.now = 0
        self._runner = self.stack.enter_context(asyncio.Runner())
        self._clock = self.stack.enter_context(Clock.installed())

        async def begin() -> FakeStore:
            return FakeStore()

        self.store = self.run_step(begin())
        self.stack.callback(lambda: self.run_step(self.store.close()))

    def run_step(self, step: Awaitable[T]) -> T:
        """Return the outcome of a step that must not fail."""

        async def outcome() -> T:
            return await step

        return self._runner.run(outcome())

    def attempt(self, step: Callable[[], Awaitable[T]], refusal: str | None) -> T | None:
        """Return the answer of a step that must succeed, or None for a step that must be refused with the code
        `refusal`.
        """

        async def attempt() -> T | None:
            try:
                answer = await step()
            except Refused as refused:
                assert refused.code == refusal
                return None
            assert refusal is None, f"done, and should have been refused: {refusal}"
            return answer

        return self._runner.run(attempt())

    def advance(self, seconds: int) -> None:
        # 2 ms more, so that whatever ends at that moment has ended, however finely its time is counted.
        self._clock.advance(seconds + 0.002)
        self.now += seconds

    def teardown(self) -> None:
        self.stack.close()
