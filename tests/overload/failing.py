"""An application behind the intake of its process that ends in every way in which an application can end."""

import asyncio
from threading import Event
from typing import Any

from node.overload import intake
from node.overload.admission import Admission
from node.web.http import FIRST_MESSAGE, Receive, Scope, Send

READING = Event()
"""Set once the application waits for the body of a request to `/reads`."""


class Interrupting(dict[Any, intake.AdmittedRequest]):
    """The requests without a body. Granian's thread blocks when it adds a request to `/reads`, until that request is
    under way.
    """

    def __setitem__(self, body: Any, request: intake.AdmittedRequest) -> None:
        super().__setitem__(body, request)
        if request.watcher.scope["path"] == "/reads":
            READING.wait()


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """The application given to Granian. Through the intake, requests reach `serve`."""
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
        asyncio.get_running_loop().call_soon(READING.set)  # runs after the next line has begun to wait
        assert (await scope[FIRST_MESSAGE])["body"] == b"{}"
    if scope["path"] != "/says-nothing":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"fine"})
