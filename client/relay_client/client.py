"""`Relay` and `AsyncRelay`: the connections to a node, and the executors that carry out steps over them."""

import asyncio
import copy
import time
from collections.abc import AsyncGenerator, Generator
from typing import Any, Generic, TypeVar

from relay_client.agents import Agents
from relay_client.artifacts import Artifacts
from relay_client.board import Board
from relay_client.carrier import Carrier, Patience, Signer, base_of
from relay_client.events import Events
from relay_client.inboxes import Inboxes
from relay_client.messages import Messages
from relay_client.node import Node
from relay_client.resource import Async, M_co, Sync
from relay_client.sessions import Sessions
from relay_client.steps import Body, Do, Effect, Item, Items, NoAnswer, Send, Sleep, Steps
from relay_client.tasks import Tasks
from relay_client.transport import (
    AsyncHttpxTransport,
    AsyncPieces,
    AsyncTransport,
    HttpxTransport,
    Pieces,
    Transport,
    in_time,
)

T = TypeVar("T")
E = TypeVar("E")
R = TypeVar("R", bound="_Resources[Any]")
PATIENCE = Patience()


class _Resources(Generic[M_co]):
    """All operations, grouped by resource."""

    def __init__(self, base_url: str, deadline: float, tries: int, signer: Signer | None) -> None:
        self.carrier = Carrier(base_of(base_url), signer)
        self.patience = Patience(deadline, tries)
        self._make_resources()

    def with_options(self: R, *, deadline: float | None = None, tries: int | None = None) -> R:
        """Return a copy of the client with another `deadline` or `tries`.

        The copy shares the connections: close only the original.

        Raises UsageError for values that allow no try.
        """
        other = copy.copy(self)
        other.patience = Patience(
            self.patience.deadline if deadline is None else deadline, self.patience.tries if tries is None else tries
        )
        other._make_resources()
        return other

    def run(self, steps: Steps[Any]) -> Any:
        """Carry out steps, and return their value. Raises RelayError."""
        raise NotImplementedError

    def iterate(self, steps: Items[Any]) -> Any:
        """Carry out steps, and yield their values. Raises RelayError."""
        raise NotImplementedError

    def _make_resources(self) -> None:
        self.messages = Messages[M_co](self)
        self.board = Board[M_co](self)
        self.tasks = Tasks[M_co](self)
        self.sessions = Sessions[M_co](self)
        self.artifacts = Artifacts[M_co](self)
        self.inboxes = Inboxes[M_co](self)
        self.agents = Agents[M_co](self)
        self.events = Events[M_co](self)
        self.node = Node[M_co](self)


class Relay(_Resources[Sync]):
    """A synchronous client of a node. Threads may share one.

    `deadline`: seconds for all tries of a call, in addition to its `wait`. `tries`: maximum number of failed tries.
    """

    def __init__(
        self,
        base_url: str,
        *,
        deadline: float = PATIENCE.deadline,
        tries: int = PATIENCE.tries,
        signer: Signer | None = None,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(base_url, deadline, tries, signer)
        self._transport = transport or HttpxTransport()

    def run(self, steps: Steps[T]) -> T:
        """Carry out steps, and return their value. Raises RelayError."""
        executor = _Executor(self._transport)
        result: Any = None
        try:
            while True:
                result = executor.do(_advance(steps, result))
        except StopIteration as end:
            return end.value
        finally:
            executor.close(steps)

    def iterate(self, steps: Items[T]) -> Generator[T, None, None]:
        """Carry out steps, and yield their values. Raises RelayError."""
        executor = _Executor(self._transport)
        result: Any = None
        try:
            while True:
                effect = _advance(steps, result)
                if isinstance(effect, Item):
                    result = None
                    yield effect.value
                else:
                    result = executor.do(effect)
        except StopIteration:
            return
        finally:
            executor.close(steps)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> "Relay":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncRelay(_Resources[Async]):
    """A client of a node for asyncio: `Relay` with methods that are awaited, and iterations for `async for`."""

    def __init__(
        self,
        base_url: str,
        *,
        deadline: float = PATIENCE.deadline,
        tries: int = PATIENCE.tries,
        signer: Signer | None = None,
        transport: AsyncTransport | None = None,
    ) -> None:
        super().__init__(base_url, deadline, tries, signer)
        self._transport = transport or AsyncHttpxTransport()

    async def run(self, steps: Steps[T]) -> T:
        """Carry out steps, and return their value. Raises RelayError."""
        executor = _AsyncExecutor(self._transport)
        result: Any = None
        try:
            while True:
                try:
                    effect = _advance(steps, result)
                except StopIteration as end:
                    return end.value
                result = await executor.do(effect)
        finally:
            await executor.close(steps)

    async def iterate(self, steps: Items[T]) -> AsyncGenerator[T, None]:
        """Carry out steps, and yield their values. Raises RelayError."""
        executor = _AsyncExecutor(self._transport)
        result: Any = None
        try:
            while True:
                try:
                    effect = _advance(steps, result)
                except StopIteration:
                    return
                if isinstance(effect, Item):
                    result = None
                    yield effect.value
                else:
                    result = await executor.do(effect)
        finally:
            await executor.close(steps)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def __aenter__(self) -> "AsyncRelay":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _advance(steps: Generator[E, Any, Any], result: Any) -> E:
    """Send the steps the result of their last effect, and return the next effect."""
    return steps.throw(result) if isinstance(result, NoAnswer) else steps.send(result)


class _Executor:
    """Performs the effects of one run of steps, with at most one open stream. Returns NoAnswer, for `_advance`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._pieces: Pieces | None = None

    def do(self, effect: Effect) -> Any:
        try:
            match effect:
                case Send(is_stream=False):
                    return self._transport.send(effect)
                case Send():
                    return self._open(effect)
                case Sleep():
                    time.sleep(effect.seconds)
                case Do():
                    return effect.work()
                case _:
                    return self._pieces.read() if self._pieces else b""
        except NoAnswer as lost:
            return lost

    def close(self, steps: Steps[Any] | Items[Any]) -> None:
        steps.close()
        if self._pieces:
            self._pieces.close()

    def _open(self, effect: Send) -> Any:
        if self._pieces:
            self._pieces.close()
        answer, self._pieces = self._transport.open(effect)
        if answer.status >= 300:
            body = Body(effect.within)
            while piece := self._pieces.read():
                body.add(piece)
            answer.content = bytes(body.content)
        return answer


class _AsyncExecutor:
    """`_Executor` for asyncio."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport
        self._pieces: AsyncPieces | None = None

    async def do(self, effect: Effect) -> Any:
        try:
            match effect:
                case Send(is_stream=False):
                    return await self._transport.send(effect)
                case Send():
                    return await self._open(effect)
                case Sleep():
                    await asyncio.sleep(effect.seconds)
                case Do():
                    return await asyncio.to_thread(effect.work) if effect.blocks else effect.work()
                case _:
                    return await self._pieces.read() if self._pieces else b""
        except NoAnswer as lost:
            return lost

    async def close(self, steps: Steps[Any] | Items[Any]) -> None:
        steps.close()
        if self._pieces:
            await self._pieces.close()

    async def _open(self, effect: Send) -> Any:
        if self._pieces:
            await self._pieces.close()
        with in_time(effect):
            answer, self._pieces = await self._transport.open(effect)
            if answer.status >= 300:
                body = Body()
                while piece := await self._pieces.read():
                    body.add(piece)
                answer.content = bytes(body.content)
        return answer
