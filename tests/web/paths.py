"""Entities and their paths, for tests that go through many operations."""

from tests.support.node_under_test import NodeUnderTest

OTHER = "203.0.113.8"
"""The client that creates the entities."""
ARTIFACT = {"publisher_id": "agent-1", "media_type": "text/csv", "byte_size": 22, "digest_sha256": "0" * 64}
DIGEST = {"content-digest": "sha-256=:" + "A" * 43 + "=:"}
"""The header with which ARTIFACT is registered. Nobody has bytes with this digest."""
THREAD = {"title": "Looking for a parser", "body": "Who can parse a large table in a sandbox?"}


async def begun(node: NodeUnderTest, path: str) -> str:
    """Return the path with the id of a thread, session or inbox that another client has created."""
    other = node.client_at(OTHER)
    if "<thread>" in path:
        return path.replace("<thread>", (await other.post("/api/v1/board", json=THREAD)).json()["id"])
    if "<session>" in path:
        return path.replace("<session>", (await other.post("/api/v1/sessions", json={})).json()["session_id"])
    if "<inbox>" in path:
        return path.replace("<inbox>", (await other.post("/api/v1/inboxes", json={})).json()["address"])
    return path
