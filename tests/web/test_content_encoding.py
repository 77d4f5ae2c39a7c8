"""A compressed body is refused: it is neither read as if it were plain (RFC 9110 §15.5.16) nor unpacked into a large
one.
"""

import gzip
import json
from typing import Any

import pytest

from tests.support.node_under_test import NodeUnderTest

ID = "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"
BODY = gzip.compress(b'{"message": "Hello from one agent to another."}')
PLAIN = {"content-type": "application/json"}
ENCODED = PLAIN | {"content-encoding": "gzip"}

PLAIN_FORM = [
    "/api/v1/relay",
    "/api/v1/wire/stream",
    "/api/v1/board",
    "/api/v1/board/search",
    f"/api/v1/board/{ID}/replies",
    "/api/v1/tasks",
    f"/api/v1/tasks/{ID}/claim",
    f"/api/v1/tasks/{ID}/complete",
    "/api/v1/sessions",
    f"/api/v1/sessions/{ID}/messages",
    f"/api/v1/sessions/{ID}/destroy",
    "/api/v1/artifacts",
    "/api/v1/feedback",
]


@pytest.mark.parametrize("path", PLAIN_FORM)
async def test_a_compressed_body_is_refused(node: NodeUnderTest, path: str) -> None:
    response = await node.client.post(path, content=BODY, headers=ENCODED)
    assert (response.status_code, response.headers["x-error-code"]) == (415, "body.encoded")
    assert response.headers["accept-encoding"] == "identity"
    assert "Content-Encoding" in response.json()["error"]


@pytest.mark.parametrize("path", ["/api/v1/message:send", "/api/v1/a2a/tasks"])
async def test_a2a_clients_read_it_as_an_a2a_error(node: NodeUnderTest, path: str) -> None:
    response = await node.client.post(path, content=BODY, headers=ENCODED)
    assert response.status_code == 415
    assert response.headers["accept-encoding"] == "identity"
    assert response.json()["error"]["details"][0]["reason"] == "CONTENT_TYPE_NOT_SUPPORTED"


async def test_mcp_clients_read_it_as_a_json_rpc_error(node: NodeUnderTest) -> None:
    response = await node.client.post("/api/v1/mcp", content=BODY, headers=ENCODED)
    assert response.status_code == 415
    assert response.headers["accept-encoding"] == "identity"
    assert "Content-Encoding" in response.json()["error"]["message"]


@pytest.mark.parametrize("coding", ["deflate", "br", "zstd", "gzip, identity", "GZIP", "x"])
async def test_no_other_coding_is_read_either(node: NodeUnderTest, coding: str) -> None:
    headers = ENCODED | {"content-encoding": coding}
    assert (await node.client.post("/api/v1/relay", content=BODY, headers=headers)).status_code == 415


@pytest.mark.parametrize("coding", ["identity", "Identity"])
async def test_a_body_that_is_said_to_be_plain_is_taken(node: NodeUnderTest, coding: str) -> None:
    headers = ENCODED | {"content-encoding": coding}
    response = await node.client.post("/api/v1/relay", content=gzip.decompress(BODY), headers=headers)
    assert response.status_code == 200


async def test_a_refused_body_counts_in_the_limit_of_the_relay(node: NodeUnderTest) -> None:
    response = await node.client.post("/api/v1/relay", content=BODY, headers=ENCODED)
    assert response.headers["ratelimit"].startswith('"relay";r=9')


async def test_an_upload_is_stored_as_it_is_digested_or_not_at_all(node: NodeUnderTest) -> None:
    asked: dict[str, Any] = {
        "publisher_id": "agent-1",
        "media_type": "application/json",
        "byte_size": len(BODY),
        "digest_sha256": "0" * 64,
    }
    digest = {"content-digest": "sha-256=:" + "A" * 43 + "=:"}
    manifest = await node.client.post("/api/v1/artifacts", content=json.dumps(asked), headers=PLAIN | digest)
    assert manifest.status_code == 201, manifest.text
    response = await node.client.put(manifest.json()["upload_url"], content=BODY, headers=ENCODED)
    assert (response.status_code, response.headers["x-error-code"]) == (415, "body.encoded")
    assert response.headers["accept-encoding"] == "identity"
