"""An application that ends in every way an application can, behind the intake of its process."""

import asyncio

from node.overload import intake
from node.overload.admission import Admission
from node.web.http import Receive, Scope, Send


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """What Granian is given. Requests come to `serve`, by way of the intake."""
    assert scope["type"] == "lifespan"
    await receive()
    door = intake.Intake(Admission(), lambda: (0, 0))
    door.application = serve
    assert intake.install(door)
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


async def serve(scope: Scope, _receive: Receive, send: Send) -> None:
    if scope["path"] == "/raises":
        raise OSError("nobody expected it")
    if scope["path"] == "/is-cancelled":
        raise asyncio.CancelledError
    if scope["path"] != "/says-nothing":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"fine"})
