"""Genuine callbacks, from a real node and signed like its own, and forged ones."""

import asyncio
import json
import time
from base64 import b64encode
from typing import Any

import httpx
import pytest
import uvicorn
from nacl.signing import SigningKey
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.support.nodes import NodeProcess
from tests.support.servers import eventually, free_port

from relay_client import AsyncRelay
from relay_client.webhook import WebhookInvalid, WebhookReceiver, verify_webhook

KEY = SigningKey.generate()
PUBLIC = f"whpk_{b64encode(bytes(KEY.verify_key)).decode()}"
BODY = b'{"type":"board.reply","data":{"callback_host":"agent.example"}}'

PUSH = b'{"statusUpdate":{"taskId":"1","contextId":"1","status":{"state":"TASK_STATE_COMPLETED"}}}'
"""The body of an A2A push notification, as the node signs it."""


def signed(body: bytes, ident: str = "msg_1", age: int = 0) -> dict[str, str]:
    """Return the headers of a genuine callback that was sent `age` seconds ago."""
    sent = str(int(time.time()) - age)
    signature = b64encode(KEY.sign(f"{ident}.{sent}.".encode() + body).signature).decode()
    return {"Webhook-Id": ident, "Webhook-Timestamp": sent, "Webhook-Signature": f"v1a,AAAA v1a,{signature}"}


def test_only_a_genuine_callback_for_this_host_is_taken() -> None:
    headers = signed(BODY)
    said = verify_webhook(headers, BODY, PUBLIC, "agent.example")
    assert (said["type"], said["id"]) == ("board.reply", "msg_1")
    for changed, text, host in (
        (headers, BODY, "other.example"),
        (headers, BODY + b" ", "agent.example"),
        (signed(BODY, age=1000), BODY, "agent.example"),
        (signed(BODY, age=-1000), BODY, "agent.example"),
        ({**headers, "Webhook-Timestamp": str(int(headers["Webhook-Timestamp"]) - 1)}, BODY, "agent.example"),
        ({**headers, "Webhook-Timestamp": "9" * 5000}, BODY, "agent.example"),
        ({**headers, "Webhook-Id": "\udc80"}, BODY, "agent.example"),
        ({**headers, "Webhook-Signature": "v1,AAAA"}, BODY, "agent.example"),
        ({**headers, "Webhook-Signature": "v1a,A"}, BODY, "agent.example"),
        (signed(PUSH), PUSH, "agent.example"),
        (signed(b'{"data":null}'), b'{"data":null}', "agent.example"),
    ):
        with pytest.raises(WebhookInvalid):
            verify_webhook(changed, text, PUBLIC, host)


async def test_a_receiver_calls_its_handler_once_and_has_the_node_repeat_what_failed() -> None:
    told: list[dict[str, Any]] = []

    async def tell(said: dict[str, Any]) -> None:
        told.append(said)
        if len(told) == 1:
            raise ValueError("the first time it fails")

    receiver: Any = WebhookReceiver(tell, public_key=PUBLIC, host="agent.example")
    transport = httpx.ASGITransport(receiver, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://agent.example") as node:
        statuses = [(await node.post("/", content=BODY, headers=signed(BODY))).status_code for _ in range(3)]
        assert statuses == [500, 204, 204]
        assert len(told) == 2
        assert (await node.post("/", content=BODY)).status_code == 400
        assert (await node.post("/", content=bytes(70_000), headers=signed(b""))).status_code == 413
        assert (await node.get("/")).status_code == 405


async def test_a_receiver_has_the_node_repeat_what_its_handler_has_not_finished() -> None:
    is_told, goes_on = asyncio.Event(), asyncio.Event()

    async def tell(_: dict[str, Any]) -> None:
        is_told.set()
        await goes_on.wait()

    receiver: Any = WebhookReceiver(tell, public_key=PUBLIC, host="agent.example")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(receiver), base_url="http://agent.example") as node:
        first = asyncio.create_task(node.post("/", content=BODY, headers=signed(BODY)))
        await is_told.wait()
        assert (await node.post("/", content=BODY, headers=signed(BODY))).status_code == 503
        goes_on.set()
        assert (await first).status_code == 204
        assert (await node.post("/", content=BODY, headers=signed(BODY))).status_code == 204


async def test_a_receiver_remembers_the_last_callbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay_client.webhook.REMEMBERED", 2)
    told: list[dict[str, Any]] = []

    async def tell(said: dict[str, Any]) -> None:
        told.append(said)

    receiver: Any = WebhookReceiver(tell, public_key=PUBLIC, host="agent.example")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(receiver), base_url="http://agent.example") as node:
        for ident, count in (("1", 1), ("2", 2), ("3", 3), ("3", 3), ("2", 3), ("1", 4)):
            assert (await node.post("/", content=BODY, headers=signed(BODY, ident))).status_code == 204
            assert len(told) == count


async def test_a_receiver_takes_no_half_of_a_callback() -> None:
    told: list[dict[str, Any]] = []
    sent: list[Any] = []
    parts = [{"type": "http.request", "body": BODY, "more_body": True}, {"type": "http.disconnect"}]

    async def tell(said: dict[str, Any]) -> None:
        told.append(said)

    async def receive() -> Any:
        return parts.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    receiver: Any = WebhookReceiver(tell, public_key=PUBLIC, host="agent.example")
    headers = [(name.lower().encode(), value.encode()) for name, value in signed(BODY).items()]
    await receiver({"type": "http", "method": "POST", "headers": headers}, receive, send)
    assert (sent[0]["status"], told) == (400, [])
    await receiver({"type": "lifespan"}, receive, send)  # the receiver has no lifespan
    assert len(sent) == 2


@pytest.mark.parametrize("path", ["/", "/relay-callbacks/"])
async def test_a_real_node_calls_a_receiver(served: NodeProcess, path: str) -> None:
    """The receiver runs alone, and mounted in an application as client/README.md says."""
    told: list[dict[str, Any]] = []

    async def tell(said: dict[str, Any]) -> None:
        told.append(said)

    async with AsyncRelay(served.url) as relay:
        public_key = (await relay.node.identity())["webhook_public_key"]
        receiver: Any = WebhookReceiver(tell, public_key=public_key, host="127.0.0.1")
        port = free_port()
        app: Any = Starlette(routes=[Mount(path.rstrip("/"), receiver)]) if path != "/" else receiver
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", lifespan="off"))
        serving = asyncio.create_task(server.serve())
        url = f"http://127.0.0.1:{port}{path}"
        offered = await relay.tasks.offer("hooked", "Count the apples in this picture", callback_url=url)
        await relay.tasks.cancel(offered["id"], offered["publisher_token"])
        await eventually(lambda: told)
        page = await relay.tasks.callbacks(offered["id"], offered["publisher_token"])
        server.should_exit = True
        await serving
    assert (told[0]["type"], told[0]["id"]) == ("task.canceled", page["callbacks"][0]["id"])
    assert json.dumps(told[0]).count(offered["id"]) >= 1
    assert [one["type"] for one in page["callbacks"]] == ["task.canceled"]
