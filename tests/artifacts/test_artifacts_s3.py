"""Artifacts whose bytes are in a bucket of a real S3 service (OpenStack Swift). The node never sees the bytes."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from node.run.blobs import blobs_of
from node.store import ids, keys
from tests.artifacts.blobs import DATA
from tests.artifacts.calls import ARTIFACTS, complete, read, registered, verified
from tests.artifacts.swift import BUCKET, Swift
from tests.support.answers import refused
from tests.support.node_under_test import PATIENCE, NodeUnderTest


@pytest.fixture
def overrides(overrides: dict[str, Any], swift: Swift) -> dict[str, Any]:
    return overrides | {"blob_url": f"s3://{BUCKET}/node", "aws": swift._asdict()}


@pytest.fixture
async def outside() -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=PATIENCE) as client:
        yield client


async def test_bytes_go_to_the_bucket_are_verified_and_come_from_it(
    node: NodeUnderTest, swift: Swift, outside: httpx2.AsyncClient
) -> None:
    artifact = await registered(node)
    assert artifact["upload_url"].startswith(f"{swift.AWS_ENDPOINT_URL}/{BUCKET}/node/{artifact['id']}?")
    bare = await outside.put(artifact["upload_url"], content=DATA)
    assert bare.status_code == 403
    put = await outside.put(artifact["upload_url"], content=DATA, headers=artifact["upload_headers"])
    assert put.status_code == 200, put.text
    await complete(node, artifact)
    async with node.worker():
        assert (await verified(node, artifact))["status"] == "available"
    led = await node.client.get(f"{ARTIFACTS}/{artifact['id']}/content")
    got = await outside.get(led.headers["location"])
    assert (got.status_code, got.content) == (200, DATA)
    assert got.headers["content-disposition"] == 'attachment; filename="people.csv"'
    head = await node.client.head(f"{ARTIFACTS}/{artifact['id']}/content")
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(DATA)))
    assert refused(await node.client.put("/blobs/x", content=DATA)) == (404, "path.unknown")


async def test_small_bytes_go_to_the_bucket_and_come_from_it_through_the_node(node: NodeUnderTest) -> None:
    small = {"publisher_id": "desk", "media_type": "text/csv", "text": "name,size\nrelay,1\n"}
    stored = await node.client.post(f"{ARTIFACTS}/inline", json=small)
    assert stored.status_code == 201, stored.text
    async with node.worker():
        assert (await verified(node, stored.json()))["status"] == "available"
    found = await node.client.get(f"{ARTIFACTS}/{stored.json()['id']}/inline")
    assert found.json()["text"] == small["text"]


async def test_what_was_rejected_and_uploaded_again_is_removed_once_no_url_is_left(
    node: NodeUnderTest, outside: httpx2.AsyncClient
) -> None:
    artifact = await registered(node, media_type="image/png")
    await outside.put(artifact["upload_url"], content=DATA, headers=artifact["upload_headers"])
    await complete(node, artifact)
    async with node.worker():
        manifest = await verified(node, artifact)
    assert manifest["status"] == "rejected"
    blobs = blobs_of(node.settings)
    await blobs.delete(artifact["id"])  # as the worker does, unless it was stopped before
    again = await outside.put(artifact["upload_url"], content=DATA, headers=artifact["upload_headers"])
    assert again.status_code == 200
    due = keys.artifacts(ids.partition_of_id(artifact["id"]))
    await node.store.command("ZADD", due, 1, artifact["id"])
    async with node.worker(), asyncio.timeout(PATIENCE):
        assert (await read(node, artifact))["status"] == "rejected"
        while await node.store.command("ZSCORE", due, artifact["id"]) is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert await blobs.size(artifact["id"]) is None
    await blobs.close()
