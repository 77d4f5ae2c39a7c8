"""What is unlisted is only for those who were told its id, not for a cache, nor for anybody who guesses ids."""

from itertools import pairwise
from typing import Any
from uuid import UUID

import httpx2

from tests.support.node_under_test import NodeUnderTest
from tests.web.paths import ARTIFACT, DIGEST

MESSAGE = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "Hello from agent A."}]}


async def made(node: NodeUnderTest, path: str, body: Any, **headers: str) -> httpx2.Response:
    response = await node.client.post(path, json=body, headers=headers)
    assert response.status_code in {200, 201}, response.text
    return response


async def test_no_cache_keeps_what_only_an_id_leads_to(node: NodeUnderTest) -> None:
    session = (await made(node, "/api/v1/sessions", {})).json()["session_id"]
    private = (await made(node, "/api/v1/relay", {"message": "Hello there", "public": False})).json()["reference_id"]
    artifact = (await made(node, "/api/v1/artifacts", ARTIFACT, **DIGEST)).json()["id"]
    task = (await made(node, "/api/v1/message:send", {"message": MESSAGE})).json()["task"]
    reads = (f"sessions/{session}/messages", f"relay/{private}", f"artifacts/{artifact}", f"tasks/{task['id']}")
    for path in (*reads, f"tasks?contextId={task['contextId']}"):
        for headers in ({}, {"a2a-version": "1.0"}):
            response = await node.client.get(f"/api/v1/{path}", headers=headers)
            assert (response.status_code, response.headers["cache-control"]) == (200, "no-store"), path


async def test_a_contract_is_public_and_may_be_kept(node: NodeUnderTest) -> None:
    task = (await made(node, "/api/v1/tasks", {"publisher_id": "p", "title": "Translate a memo"})).json()["id"]
    for headers in ({}, {"a2a-version": "1.0"}):
        assert "cache-control" not in (await node.client.get(f"/api/v1/tasks/{task}", headers=headers)).headers


async def test_an_id_that_one_is_given_says_nothing_of_the_next_one(node: NodeUnderTest) -> None:
    """The library's ids count up within a millisecond, so one session's id would reveal half of another's."""
    ids: list[str] = []
    for _ in range(3):
        ids += [
            (await made(node, "/api/v1/sessions", {})).json()["session_id"],
            (await made(node, "/api/v1/relay", {"message": f"Hello {len(ids)}", "public": False})).json()[
                "reference_id"
            ],
            (await made(node, "/api/v1/artifacts", ARTIFACT, **DIGEST)).json()["id"],
            (await made(node, "/api/v1/message:send", {"message": MESSAGE})).json()["task"]["id"],
            (await made(node, "/api/v1/message:send", {"message": MESSAGE})).json()["task"]["contextId"],
        ]
    tails = sorted(UUID(one).int & (2**62 - 1) for one in ids)
    assert min(after - before for before, after in pairwise(tails)) > 2**34
