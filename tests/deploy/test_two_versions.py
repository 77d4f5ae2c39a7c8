"""During an upgrade, old and new nodes work on one Redis, each with its own Lua scripts.

A script is addressed by the SHA-1 of its text, so two versions are two scripts. A server that has lost either of them
gets it again from the node that calls it.
"""

import json
import sys
import zipfile
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from node.store.scripts import script
from tests.deploy.processes import HELLO, call, start, until_ready
from tests.support.nodes import NodeProcess
from tests.support.servers import RedisServer

Nodes = dict[str, NodeProcess]

# The change in the new version: every line of a session records who stored it.
OLD_STEP = "redis.call('XADD', lines, '0-*', 'at', at, unpack(ARGV, 9))"
NEW_STEP = "redis.call('XADD', lines, '0-*', 'at', at, 'stored_by', 'new', unpack(ARGV, 9))"


@pytest.fixture
def nodes(wheel: Path, tmp_path: Path, empty_redis: RedisServer) -> Generator[Nodes]:
    """The released version, and one that differs in a script, as `old` and `new`."""
    with ExitStack() as stack:
        found: Nodes = {}
        for name in ("old", "new"):
            place = tmp_path / name
            zipfile.ZipFile(wheel).extractall(place)
            if name == "new":
                step = place / "node" / "lua" / "session_send.lua"
                assert OLD_STEP in step.read_text()
                step.write_text(step.read_text().replace(OLD_STEP, NEW_STEP))
            # -P keeps the working directory off the path: the version comes from PYTHONPATH.
            command = (sys.executable, "-P", "-m", "node", "web")
            found[name] = stack.enter_context(NodeProcess(tmp_path / f"{name}-data", command, cwd=tmp_path))
            start(found[name], empty_redis.url, PYTHONPATH=str(place))
        for node in found.values():
            until_ready(node)
        yield found


def test_old_and_new_scripts_work_side_by_side(nodes: Nodes, empty_redis: RedisServer) -> None:
    session = post(nodes["old"], "/api/v1/sessions", {"ttl_seconds": 600})["session_id"]
    path = f"/api/v1/sessions/{session}/messages"
    written: list[str] = []
    for number in range(12):
        if number % 4 == 2:
            empty_redis.do("SCRIPT", "FLUSH")
        writer = ("old", "new")[number % 2]
        assert post(nodes[writer], path, {"body": f"{writer} {number}"})["seq"] == number + 1
        written.append(f"{writer} {number}")
    for node in nodes.values():
        lines = json.loads(call(node.port, "GET", f"{path}?since_seq=0")[2])["lines"]
        assert [line["body"] for line in lines] == written
        assert [line["seq"] for line in lines] == list(range(1, 13))

    # Each line proves which version stored it.
    stored = empty_redis.do("XRANGE", empty_redis.do("KEYS", f"lines:*{session}")[0], "-", "+")
    by_new = [b"stored_by" in entry[1] for entry in stored]
    assert by_new == [False, True] * 6
    assert empty_redis.do("SCRIPT", "EXISTS", script("session_send").single_sha) == [1]


def test_what_one_version_began_the_other_ends(nodes: Nodes, empty_redis: RedisServer) -> None:
    old, new = nodes["old"], nodes["new"]
    task = post(old, "/api/v1/tasks", {"publisher_id": "agent-1", "title": "Translate a memo into plain words"})["id"]
    claim = post(new, f"/api/v1/tasks/{task}/claim", {"assignee_id": "agent-2"})
    empty_redis.do("SCRIPT", "FLUSH")
    result = {"claim_token": claim["claim_token"], "result_payload": {"memo": "We meet on Friday."}}
    assert post(old, f"/api/v1/tasks/{task}/complete", result)["status"] == "completed"
    idempotency = {"idempotency-key": "once"}
    first = call(old.port, "POST", "/api/v1/relay", {"message": HELLO, "public": False}, idempotency)
    again = call(new.port, "POST", "/api/v1/relay", {"message": HELLO, "public": False}, idempotency)
    assert json.loads(first[2]) == json.loads(again[2])
    assert again[1]["idempotency-replayed"] == "true"


def post(node: NodeProcess, path: str, body: object) -> dict[str, Any]:
    status, _, text = call(node.port, "POST", path, body)
    assert status in (200, 201), text
    return json.loads(text)
