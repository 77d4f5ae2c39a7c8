"""Calls of a client to the node that the artifact tests share."""

import asyncio
from base64 import b64encode
from contextlib import AbstractAsyncContextManager
from hashlib import sha256
from typing import Any

import httpx2

from tests.artifacts.blobs import DATA
from tests.support.answers import json_of
from tests.support.node_under_test import PATIENCE, NodeUnderTest, running, settings_for
from tests.support.servers import RedisServer

ARTIFACTS = "/api/v1/artifacts"


def node_on(server: RedisServer, **given: Any) -> AbstractAsyncContextManager[NodeUnderTest]:
    """Run a node whose blobs are where no other test keeps any: in the given `data_dir` or `blob_url`."""
    return running(settings_for(server.url, **{"blob_reserve": 0, **given}))


def content_digest(data: bytes = DATA) -> str:
    """Return the Content-Digest header (RFC 9530)."""
    return f"sha-256=:{b64encode(sha256(data).digest()).decode()}:"


def named(data: bytes = DATA, **given: Any) -> dict[str, Any]:
    """Return the manifest of these bytes."""
    manifest = {
        "publisher_id": "report-desk",
        "media_type": "text/csv",
        "byte_size": len(data),
        "digest_sha256": sha256(data).hexdigest(),
        "filename": "people.csv",
    }
    return manifest | given


async def register(
    node: NodeUnderTest,
    data: bytes = DATA,
    *,
    client: httpx2.AsyncClient | None = None,
    headers: dict[str, str] | None = None,
    **given: Any,
) -> httpx2.Response:
    """Return the response to a registration with the Content-Digest of the bytes."""
    sent = {"content-digest": content_digest(data)} | (headers or {})
    return await (client or node.client).post(ARTIFACTS, json=named(data, **given), headers=sent)


async def registered(node: NodeUnderTest, data: bytes = DATA, **given: Any) -> dict[str, Any]:
    """Register an artifact, and return it."""
    return json_of(await register(node, data, **given), 201)


async def upload(node: NodeUnderTest, artifact: dict[str, Any], data: bytes = DATA) -> httpx2.Response:
    """Return the response to the upload that the manifest asks for."""
    return await node.client.put(artifact["upload_url"], content=data, headers=artifact["upload_headers"])


async def complete(node: NodeUnderTest, artifact: dict[str, Any]) -> httpx2.Response:
    """Return the response to the completion of the upload."""
    return await node.client.post(f"{ARTIFACTS}/{artifact['id']}/complete")


async def read(node: NodeUnderTest, artifact: dict[str, Any], **query: Any) -> dict[str, Any]:
    """Return the manifest."""
    return (await node.client.get(f"{ARTIFACTS}/{artifact['id']}", params=query)).json()


async def verified(node: NodeUnderTest, artifact: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest once a worker has verified the artifact."""
    async with asyncio.timeout(PATIENCE):
        while (manifest := await read(node, artifact, wait=10, status="verifying"))["status"] == "verifying":
            pass
    return manifest


async def available(node: NodeUnderTest, data: bytes = DATA, **given: Any) -> dict[str, Any]:
    """Return an artifact whose bytes anybody can read."""
    artifact = await registered(node, data, **given)
    assert (await upload(node, artifact, data)).status_code == 200
    await complete(node, artifact)
    async with node.worker():
        assert (await verified(node, artifact))["status"] == "available"
    return artifact
