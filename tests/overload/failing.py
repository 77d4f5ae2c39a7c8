"""An application that ends in every way an application can, behind the intake of its process."""

import asyncio
from threading import Event
from typing import Any

from node.overload import intake
from node.overload.admission import Admission
from node.web.http import FIRST_MESSAGE, Receive, Scope, Send

READING = Event()
"""Whether the application waits for the body of a request to `/reads`."""


class Interrupting(dict[Any, intake.AdmittedRequest]):
    """Requests without a body. Granian's thread stands still where it adds one to `/reads`, until that is begun."""

    def __setitem__(self, body: Any, request: intake.AdmittedRequest) -> None:
        super().__setitem__(body, request)
        if request.watcher.scope["path"] == "/reads":
            READING.wait()


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """What Granian is given. Requests come to `serve`, by way of the intake."""
    assert scope["type"] == "lifespan"
    await receive()
    door = intake.Intake(Admission(), lambda: (0, 0))
    door.application = serve
    door._without_body = Interrupting()  # pyright: ignore[reportPrivateUsage]
    assert intake.install(door)
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


async def serve(scope: Scope, _receive: Receive, send: Send) -> None:
    if scope["path"] == "/raises":
        raise OSError("nobody expected it")
    if scope["path"] == "/is-cancelled":
        raise asyncio.CancelledError
    if scope["path"] == "/reads":
        asyncio.get_running_loop().call_soon(READING.set)  # which is after the next line has begun to wait
        assert (await scope[FIRST_MESSAGE])["body"] == b"{}"
    if scope["path"] != "/says-nothing":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"fine"})
