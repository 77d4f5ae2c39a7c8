"""The ASGI application of a web process and its lifecycle: start the node that it serves, drain, and stop.

`dispatch` handles each request; `responder` adds what is sent with every answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeAlias

import structlog

from node.common.signals import DRAIN, DRAINING, RELEASE_WAITERS
from node.web.address import ClientAddress
from node.web.dispatch import Dispatcher, Node
from node.web.http import Receive, Scope, Send
from node.web.responder import closing

log = structlog.get_logger()

Serve: TypeAlias = Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]


class WebApplication:
    """The ASGI application of a web process."""

    def __init__(self, compose: Callable[[], Awaitable[Node]], addresses: ClientAddress) -> None:
        """`compose` is called at startup, so that the node's connections belong to the server's event loop."""
        self._compose = compose
        self._addresses = addresses
        self._serve: Serve | None = None

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        # Not a coroutine that awaits another one: every step of a request would then go through both.
        if self._serve is None:
            return self._lifespan(receive, send)
        return self._serve(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        """Run ASGI's lifespan protocol: start, report the start, wait for the shutdown message, and stop.

        A server calls this first, and sends requests only after the start.
        """
        await receive()
        try:
            node = await self._compose()
        except Exception:
            log.exception("web process cannot start")
            await send({"type": "lifespan.startup.failed", "message": "see the log"})
            raise
        dispatcher = Dispatcher(node, self._addresses)
        self._serve = dispatcher.serve
        with suppress(NotImplementedError, ValueError):  # signals need the main thread; tests may run in another
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(DRAIN, self._drain, node, dispatcher)
            loop.add_signal_handler(RELEASE_WAITERS, node.release)
        if DRAINING.is_set():  # checked last: the signal may have come before its handler was set
            self._drain(node, dispatcher)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        node.release()
        await node.close()
        await send({"type": "lifespan.shutdown.complete"})

    def _drain(self, node: Node, dispatcher: Dispatcher) -> None:
        """Keep serving, but close each connection after its next answer.

        Otherwise clients would go on sending requests on open connections, and lose those that are under way when the
        process closes the connections.
        """
        node.drain()

        async def serve_last(scope: Scope, receive: Receive, send: Send) -> None:
            await dispatcher.serve(scope, receive, closing(send))

        self._serve = serve_last
