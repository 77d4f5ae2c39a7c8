"""Calls of owners and senders that the inbox tests share."""

import time
from typing import Any, cast

import httpx2
import msgspec
from nacl.signing import SigningKey

from node.sign.keys import PublicKey
from tests.board.signed_posts import OTHER_KEY
from tests.sign.signing import KEY, Signed, sign
from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest

INBOXES = "/api/v1/inboxes"
ADDRESS, OTHER_ADDRESS = (PublicKey(bytes(key.verify_key)).thumbprint for key in (KEY, OTHER_KEY))
UNKNOWN_ADDRESS = "A" * 27

Json = dict[str, Any]


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def opened(node: NodeUnderTest, **wanted: Any) -> Json:
    """Open an inbox, and return it."""
    return json_of(await node.client.post(INBOXES, json=wanted), 201)


def path_of(inbox: Json, rest: str = "") -> str:
    return f"{INBOXES}/{inbox['address']}{rest}"


async def sent(node: NodeUnderTest, inbox: Json, client: httpx2.AsyncClient | None = None, **message: Any) -> Json:
    """Send a message, and return it."""
    response = await (client or node.client).post(path_of(inbox, "/messages"), json={"body": "Hello"} | message)
    assert response.status_code == 201, response.text
    return response.json()


async def read(node: NodeUnderTest, inbox: Json, **query: Any) -> Json:
    """Return a page of messages, as the owner reads it."""
    response = await node.client.get(path_of(inbox, "/messages"), params=query, headers=bearer(inbox["inbox_token"]))
    assert response.status_code == 200, response.text
    return response.json()


async def settled(node: NodeUnderTest, inbox: Json, message: Json, **settlement: Any) -> httpx2.Response:
    """Settle a message, as `done` unless another status is given. Returns the answer."""
    path = path_of(inbox, f"/messages/{message['id']}/settle")
    return await node.client.post(path, json={"status": "done"} | settlement, headers=bearer(inbox["inbox_token"]))


async def receipt(node: NodeUnderTest, inbox: Json, message: Json, **query: Any) -> Json:
    """Return what the sender reads about its message."""
    path = path_of(inbox, f"/messages/{message['id']}")
    return json_of(await node.client.get(path, params=query, headers=bearer(message["receipt_token"])))


async def closed(node: NodeUnderTest, inbox: Json) -> httpx2.Response:
    return await node.client.delete(path_of(inbox), headers=bearer(inbox["inbox_token"]))


async def members(node: NodeUnderTest, name: str) -> list[tuple[bytes, int]]:
    """Return the members of a sorted set in Redis with their scores, which are times."""
    flat = iter(cast("list[bytes]", await node.store.command("ZRANGE", name, 0, -1, "WITHSCORES")))
    return [(member, int(float(score))) for member, score in zip(flat, flat, strict=True)]


def signed(method: str, path: str, body: object = None, key: SigningKey = KEY, query: str = "") -> Signed:
    """Return a request signed now by a key that the request names."""
    content = b"" if body is None else msgspec.json.encode(body)
    hwk = f'sig=hwk;alg="Ed25519";kty="OKP";crv="Ed25519";x="{PublicKey(bytes(key.verify_key)).x}"'
    params = f';created={int(time.time())};nonce="{time.monotonic_ns()}"'
    covered = ("@method", "@authority", "@path", "signature-key", *(("content-digest",) if content else ()))
    request = Signed(method=method, path=path, query=query, body=content)
    return sign(covered, params, signature_key=hwk, request=request, key=key)


async def send_signed(node: NodeUnderTest, request: Signed, **headers: str) -> httpx2.Response:
    """Send a request as it was signed, with further headers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    url = request.path + (f"?{request.query}" if request.query else "")
    return await node.client.request(
        request.method, url, content=request.body or None, headers={**request.headers, **named}
    )
