"""Small artifacts whose bytes go through the node, as JSON (NETWORK 4)."""

import asyncio
from base64 import b64encode
from hashlib import sha256
from typing import Any

import httpx2
import pytest

from node.artifacts.blobs.disk import DiskStore
from node.artifacts.blobs.interface import Grant
from node.artifacts.model import INLINE_BYTES
from node.common.refusal import Refused
from node.store import keys
from node.store.idempotency import RETRY_SECONDS
from tests.artifacts.blobs import DATA
from tests.artifacts.calls import ARTIFACTS, available, register, verified
from tests.support.node_under_test import NodeUnderTest

CSV = {"publisher_id": "desk", "media_type": "text/csv", "text": "name,size\nrelay,1\n"}
KEY = {"Idempotency-Key": "an-idempotency-key-of-32-characters"}


async def store(node: NodeUnderTest, body: dict[str, Any], **headers: str) -> httpx2.Response:
    return await node.client.post(f"{ARTIFACTS}/inline", json=body, headers=headers)


async def test_small_bytes_are_stored_verified_and_read_in_json(node: NodeUnderTest) -> None:
    response = await store(node, CSV)
    assert (response.status_code, response.json()["status"]) == (201, "verifying")
    manifest = response.json()
    assert response.headers["location"] == manifest["url"]
    assert manifest["digest_sha256"] == sha256(CSV["text"].encode()).hexdigest()
    read = f"{ARTIFACTS}/{manifest['id']}/inline"
    assert (await node.client.get(read)).status_code == 409
    async with node.worker():
        assert (await verified(node, manifest))["status"] == "available"
    found = await node.client.get(read)
    assert found.headers["cache-control"] == "no-store"
    assert (found.json()["text"], found.json()["base64"]) == (CSV["text"], None)


async def test_a_repeated_request_stores_once(node: NodeUnderTest) -> None:
    first, second = await store(node, CSV, **KEY), await store(node, CSV, **KEY)
    assert first.json() == second.json()
    assert second.headers["idempotency-replayed"] == "true"
    assert (await store(node, CSV | {"text": "other"}, **KEY)).status_code == 422


async def test_a_key_that_stored_an_artifact_registers_another(node: NodeUnderTest) -> None:
    """A body may have the members of both operations; a key applies only to the operation it was sent to."""
    content = CSV["text"].encode()
    digest = sha256(content)
    body = CSV | {"byte_size": len(content), "digest_sha256": digest.hexdigest()}
    stored = await store(node, body, **KEY)
    promised = {"Content-Digest": f"sha-256=:{b64encode(digest.digest()).decode()}:"}
    registered = await node.client.post(ARTIFACTS, json=body, headers=KEY | promised)
    assert (registered.status_code, registered.json()["status"]) == (201, "registered")
    assert registered.json()["id"] != stored.json()["id"]


@pytest.mark.parametrize(("media_type", "status"), [("text/csv", "available"), ("image/png", "rejected")])
async def test_a_request_repeated_after_the_verdict_gets_the_same_answer(
    node: NodeUnderTest, media_type: str, status: str
) -> None:
    body = {"publisher_id": "desk", "media_type": media_type, "base64": b64encode(b"%PDF-1.4\n" * 20).decode()}
    if status == "available":
        body = CSV
    first = await store(node, body, **KEY)
    async with node.worker():
        assert (await verified(node, first.json()))["status"] == status
    second = await store(node, body, **KEY)
    assert (second.status_code, second.json()) == (201, first.json())


async def test_a_request_repeated_with_a_short_key_is_answered_after_a_minute_too(node: NodeUnderTest) -> None:
    """An answer with a stored artifact grants no upload, so it may be repeated for a short key after that time, too."""
    short = {"Idempotency-Key": "short"}
    first = (await store(node, CSV, **short)).json()
    await node.store.command("HINCRBY", keys.artifact(first["id"]), "created_at", -(RETRY_SECONDS + 1) * 1000)
    again = await store(node, CSV, **short)
    assert (again.status_code, again.json()["id"]) == (201, first["id"])


async def test_requests_repeated_at_the_same_time_are_answered_alike(node: NodeUnderTest) -> None:
    large = CSV | {"text": "name,size\n" * (INLINE_BYTES // 10)}
    answers = await asyncio.gather(*(store(node, large, **KEY) for _ in range(8)))
    assert [answer.status_code for answer in answers] == [201] * 8
    assert len({answer.content for answer in answers}) == 1


async def test_bytes_that_a_request_like_this_one_stores_are_waited_for(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, busy = DiskStore.write, [True, True]

    async def busy_at_first(disk: DiskStore, grant: Grant, content: bytes) -> None:
        if busy:
            busy.pop()
            raise Refused("blob.busy")
        await write(disk, grant, content)

    monkeypatch.setattr(DiskStore, "write", busy_at_first)
    assert (await store(node, CSV)).status_code == 201
    assert not busy


@pytest.mark.parametrize(
    ("change", "loc"),
    [
        ({"text": None}, ["body"]),
        ({"base64": "AAAA"}, ["body"]),
        ({"text": None, "base64": "?"}, ["body", "base64"]),
        ({"text": None, "base64": "AAAA\nAAAA"}, ["body", "base64"]),
        ({"text": ""}, ["body", "text"]),
        ({"text": "\u20ac" * (INLINE_BYTES // 2)}, ["body", "text"]),
        ({"text": None, "base64": b64encode(bytes(INLINE_BYTES + 1)).decode()}, ["body", "base64"]),
        ({"media_type": "csv"}, ["body", "media_type"]),
        ({"filename": "../x"}, ["body", "filename"]),
    ],
)
async def test_what_is_no_small_artifact_is_named(node: NodeUnderTest, change: dict[str, Any], loc: list[str]) -> None:
    refused = await store(node, CSV | change)
    assert (refused.status_code, refused.json()["detail"][0]["loc"]) == (422, loc)


async def test_inline_artifacts_count_as_all_others(node: NodeUnderTest) -> None:
    for _ in range(5):
        assert (await store(node, CSV)).status_code == 201
        assert (await register(node)).status_code == 201
    limited = await store(node, CSV)
    assert (limited.status_code, limited.headers["x-error-code"]) == (429, "limit.exceeded")


async def test_what_is_larger_is_read_at_its_content_url(node: NodeUnderTest) -> None:
    large = DATA * (INLINE_BYTES // len(DATA) + 1)
    artifact = await available(node, large)
    refused = await node.client.get(f"{ARTIFACTS}/{artifact['id']}/inline")
    assert (refused.status_code, refused.headers["x-error-code"]) == (409, "artifact.large")
