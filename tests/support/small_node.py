"""A node with stand-in web processes for the supervisor's tests, run by the real supervisor and launchers.

`python -m tests.support.small_node serve|web|worker`.
"""

import asyncio
import os
import sys
import threading
from typing import Any

from node import config
from node.observe import log
from node.run import launch
from node.run.serve import serve
from node.web.http import Receive, Send
from node.web.responder import Responder
from node.web.streams import BodySender, Streaming
from node.web.throughput import Throughput
from tests.support.lone_request import lone_request

SHOWN = ("RELAY_SECRET", "RELAY_SIGNING_KEY", "RELAY_REDIS_URL")  # environment variables that /environment shows

# Not the web process itself, if it was forked from a process that had already imported this module.
IMPORTED_BY = os.getpid()

LOADS_FOR_EVER = "LOADS_FOR_EVER"  # environment variable that keeps web processes from taking requests


class App:
    """Answers `/held` when told to release waiters and `/never` never; `/environment` with the variables in SHOWN,
    `/sent` with whether a connection with room takes a piece at once, `/imported-by` with the id of the process that
    imported this module, and any other path with its own process id.
    """

    def __init__(self) -> None:
        self._released = asyncio.Event()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._live(receive, send)
        body = str(os.getpid())
        if scope["path"] == "/held":
            await self._answer(send, b"held\n", more=True)
            await self._released.wait()
            return await send({"type": "http.response.body", "body": b"released"})
        if scope["path"] == "/never":
            await self._answer(send, b"begun\n", more=True)
            await asyncio.Event().wait()
        if scope["path"] == "/sent":
            request = lone_request(scope, receive)
            return await Responder(None, Throughput(0)).stream(request, Streaming(says_whether_sent, (), nothing), send)
        if scope["path"] == "/environment":
            body = " ".join(os.environ.get(name, "") for name in SHOWN)
        if scope["path"] == "/imported-by":
            body = str(IMPORTED_BY)
        return await self._answer(send, body.encode())

    async def _answer(self, send: Send, body: bytes, *, more: bool = False) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": body, "more_body": more})

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        asyncio.get_running_loop().add_signal_handler(launch.RELEASE_WAITERS, self._released.set)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})


async def says_whether_sent(sender: BodySender) -> None:
    is_sent = sender.begin(b"piece ") is None
    await sender(b"sent" if is_sent else b"waits")


async def nothing() -> None:
    """End a stream that took nothing."""


def create(_settings: object) -> App:
    if LOADS_FOR_EVER in os.environ:
        sys.stderr.write('{"event": "loading"}\n')
        threading.Event().wait()
    return App()


async def work(_settings: object, stop: asyncio.Event) -> None:
    await stop.wait()


def main(role: str) -> None:
    settings = config.load()
    log.configure(settings.log)
    if role == "web":
        launch.web(settings, "tests.support.small_node:create")
    elif role == "worker":
        launch.worker(settings, "tests.support.small_node:work")
    else:
        serve(settings, web=_command("web"), worker=_command("worker"))


def _command(role: str) -> list[str]:
    return [sys.executable, "-m", "tests.support.small_node", role]


if __name__ == "__main__":
    main(sys.argv[1])
