"""JSON-RPC over the HTTP transport, in the four revisions with a handshake."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from node.config import Limit, Limits
from node.mcp import server
from node.web import turn
from node.web.json_cost import MAX_CONTAINERS, MAX_DEPTH
from tests.mcp.calls import done, error, failed, post, request, result, stateless
from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest, running, settings_for
from tests.support.servers import RedisServer

WITH_HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


def handshake(version: str) -> dict[str, Any]:
    client = {"name": "x", "version": "1"}
    return request("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": client}, 0)


@pytest.mark.parametrize("version", WITH_HANDSHAKE)
async def test_a_revision_that_is_spoken_is_agreed_to(node: NodeUnderTest, version: str) -> None:
    answered = (await post(node, handshake(version))).json()
    assert answered["id"] == 0
    assert answered["result"]["protocolVersion"] == version
    assert answered["result"]["serverInfo"]["name"] == "relay-node"
    assert answered["result"]["capabilities"] == {
        "tools": {"listChanged": False},
        "prompts": {"listChanged": False},
        "resources": {"subscribe": False, "listChanged": False},
    }


@pytest.mark.parametrize("version", ["2024-10-07", "2099-01-01", "2026-07-28", ""])
async def test_any_other_revision_is_answered_with_the_preferred_one(node: NodeUnderTest, version: str) -> None:
    assert (await post(node, handshake(version))).json()["result"]["protocolVersion"] == "2025-03-26"


@pytest.mark.parametrize("request_id", [0, -1, 2**70, "", "p", "é \U0001f600", "x" * 998])
async def test_a_request_gets_its_own_id_back(node: NodeUnderTest, request_id: Any) -> None:
    response = await post(node, request("ping", request_id=request_id))
    assert (response.status_code, response.json()) == (200, {"jsonrpc": "2.0", "id": request_id, "result": {}})


@pytest.mark.parametrize("cursor", ["more", 5, {}])
async def test_only_lists_have_cursors(node: NodeUnderTest, cursor: Any) -> None:
    assert await result(node, "ping", {"cursor": cursor}) == {}
    for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
        assert (await error(node, method, {"cursor": cursor}))["code"] == -32602


@pytest.mark.parametrize("params", [None, {}, {"_meta": {"progressToken": 1}}])
async def test_params_that_say_nothing_are_no_obstacle(node: NodeUnderTest, params: Any) -> None:
    assert len((await result(node, "prompts/list", params))["prompts"]) == 5


@pytest.mark.parametrize(
    "content",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/no-such-thing", "params": {}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no"}},
        [{"jsonrpc": "2.0", "method": "notifications/initialized"}],
        [{"jsonrpc": "2.0", "id": 1, "result": {}}, {"jsonrpc": "2.0", "id": 2, "result": {}}],
    ],
)
async def test_what_holds_no_request_is_accepted_without_an_answer(node: NodeUnderTest, content: Any) -> None:
    response = await post(node, content)
    assert (response.status_code, response.content, response.headers.get("content-type")) == (202, b"", None)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"} and more',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\xff"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\\ud800"}}',
    ],
)
async def test_what_is_not_json_is_a_parse_error(node: NodeUnderTest, body: bytes) -> None:
    response = await post(node, body)
    assert response.status_code == 400
    said = "Parse error: the body is not valid JSON in UTF-8"
    assert response.json() == {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": said}}


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, MAX_CONTAINERS // 2, 100_000])
async def test_json_that_is_nested_too_deep_is_a_parse_error(node: NodeUnderTest, levels: int) -> None:
    deep, many = f"is nested more than {MAX_DEPTH} levels deep", f"holds more than {MAX_CONTAINERS} objects and lists"
    too_deep = {"code": -32700, "message": f"Parse error: body {deep if levels < MAX_CONTAINERS else many}"}
    for body in (nested(levels), b"[" * levels + b"]" * levels):
        response = await post(node, body)
        assert (response.status_code, response.json()["error"]) == (400, too_deep)
    response = await post(node, nested(levels), mcp_protocol_version="2026-07-28", mcp_method="ping")
    assert (response.status_code, response.json()["error"]) == (400, too_deep)
    assert (await post(node, nested(MAX_DEPTH))).json()["result"] == {}


async def test_json_of_countless_small_parts_is_a_parse_error(node: NodeUnderTest) -> None:
    """Counting how deep 350,000 lists are nested would take 22 ms, and three times as long in the members of a
    batch.
    """

    def body(lists: int) -> bytes:
        ping = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":[%b]}}' % b",".join([b"[]"] * lists)
        return b"[%b,%b]" % (ping, ping)

    rest = 7  # the batch, two messages, two params and their lists
    most = (MAX_CONTAINERS - rest) // 2
    assert len((await post(node, body(most))).json()) == 2
    refused = await post(node, body(most + 1))
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == -32700
    assert str(MAX_CONTAINERS) in refused.json()["error"]["message"]


def nested(levels: int) -> bytes:
    """Return a ping whose params make the whole message nested this deep."""
    return b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"x":' * (levels - 1) + b"1" + b"}" * levels


@pytest.mark.parametrize(
    "content",
    [
        7,
        "text",
        {},
        {"id": 1, "method": "ping"},
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": None, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
        {"jsonrpc": "2.0", "id": True, "method": "ping"},
        {"jsonrpc": "2.0", "id": [1], "method": "ping"},
        {"jsonrpc": "2.0", "id": "x" * 999, "method": "ping"},
        {"jsonrpc": "2.0", "id": 10**1001, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "method": None},
        {"jsonrpc": "2.0", "id": 1, "method": 5},
        [],
        [request("ping")] * 51,
    ],
)
async def test_what_is_no_message_is_an_invalid_request(node: NodeUnderTest, content: Any) -> None:
    response = await post(node, content)
    assert response.status_code == 400
    assert response.json()["id"] is None
    failure = response.json()["error"]
    assert failure["code"] == -32600
    assert any(hint in failure["message"] for hint in ('"jsonrpc": "2.0"', "1 to 50 messages", "1000 bytes")), failure


@pytest.mark.parametrize("method", ["no/such", "server/discover", "logging/setLevel", "completion/complete", ""])
async def test_an_unknown_method_is_an_error_with_status_200(node: NodeUnderTest, method: str) -> None:
    assert await error(node, method) == {"code": -32601, "message": f"Method not found: {method}"}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/list", [1]),
        ("tools/list", "text"),
        ("tools/list", {"cursor": "more"}),
        ("prompts/list", {"cursor": 5}),
        ("initialize", {"protocolVersion": 5}),
        ("tools/call", {}),
        ("tools/call", {"name": 5}),
        ("tools/call", {"name": "no_such_tool"}),
        ("tools/call", {"name": "get_node_health", "arguments": [1]}),
        ("tools/call", {"name": "get_node_health", "arguments": "text"}),
        ("prompts/get", {"name": "no_such_prompt"}),
        ("prompts/get", {"name": "find_a_peer"}),
        ("prompts/get", {"name": "find_a_peer", "arguments": {"query": " "}}),
        ("prompts/get", {"name": "find_a_peer", "arguments": {"query": 5}}),
        ("resources/read", {}),
        ("resources/read", {"uri": 5}),
    ],
)
async def test_wrong_params_are_an_error_with_status_200(node: NodeUnderTest, method: str, params: Any) -> None:
    assert (await error(node, method, params))["code"] == -32602


async def test_members_of_a_batch_are_answered_in_order(node: NodeUnderTest) -> None:
    notification = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}
    unanswered = [notification, {"jsonrpc": "2.0", "method": "initialize"}]
    batch = [request("ping"), 7, *unanswered, request("no/such", request_id="b"), handshake("2025-03-26")]
    first, second, third, fourth = json_of(await post(node, b" \r\n\t" + json.dumps(batch).encode()))
    assert first == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert (second["id"], second["error"]["code"]) == (None, -32600)
    assert (third["id"], third["error"]["code"]) == ("b", -32601)
    assert (fourth["id"], fourth["error"]["code"]) == (0, -32600), "initialize must not be part of a batch"


@pytest.mark.parametrize("count", [0, 51, 100_000])
async def test_a_batch_of_too_many_or_none_is_refused_whole(node: NodeUnderTest, count: int) -> None:
    response = await post(node, [1] * count if count > 51 else [request("ping")] * count)
    assert response.status_code == 400
    assert response.json()["error"] == {"code": -32600, "message": "A batch holds 1 to 50 messages"}


async def test_a_batch_of_50_is_answered(node: NodeUnderTest) -> None:
    assert len(json_of(await post(node, [request("ping")] * 50))) == 50


async def test_of_a_batch_whose_answers_grow_too_long_the_rest_is_not_run(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    (listed,) = (await post(node, [request("tools/list")])).json()
    one = len((await post(node, [request("tools/list")])).content)
    monkeypatch.setattr(server, "BATCH_BYTES", 3 * one)
    session = {"name": "create_session"}
    batch = [*(request("tools/list", request_id=1) for _ in range(2)), request("tools/call", session, "late")]
    response = await post(node, [*batch, request("no/such", request_id=2), {"jsonrpc": "2.0", "method": "note"}])
    first, second, late, last = response.json()
    assert first == second == listed
    assert [reply["id"] for reply in (late, last)] == ["late", 2]
    assert late["error"]["code"] == last["error"]["code"] == -32006
    assert await node.names("session:*") == []


async def test_an_answer_that_does_not_fit_into_a_batch_is_told(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "BATCH_BYTES", 1000)
    large, small = (await post(node, [request("tools/list"), request("ping", request_id=2)])).json()
    assert (large["id"], large["error"]["code"]) == (1, -32006)
    assert large["error"]["message"].startswith("Carried out")
    assert small == {"jsonrpc": "2.0", "id": 2, "result": {}}


@pytest.mark.usefixtures("no_refill")
@pytest.mark.settings(client_throughput=32 * 1024)
async def test_answers_that_do_not_fit_into_a_batch_count_as_bytes_that_were_moved(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise fifty reads of a thread of megabytes could take seconds, for an answer of 10 kB."""
    monkeypatch.setattr(server, "BATCH_BYTES", 40_000)
    replies = (await post(node, [request("tools/list", request_id=number) for number in range(40)])).json()
    codes = [reply["error"]["code"] for reply in replies]
    assert codes == sorted(codes)
    assert {*codes} == {-32006, -32005}, "each is made in vain, until the client has moved too much"
    assert (await node.client.get("/")).headers["x-error-code"] == "limit.throughput"


@pytest.mark.usefixtures("no_refill")
@pytest.mark.settings(client_throughput=32 * 1024)
async def test_what_an_operation_costs_beside_its_bytes_counts_for_its_tool(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each has the process to itself, so the number of requests is free.
    monkeypatch.setattr(turn, "SHARED_SECONDS", 0.0)
    thread = (await done(node, "post_thread", title="Replies by a tool", body="Each of them costs what it weighs."))[
        "id"
    ]
    bodies = [f"This is reply number {number}. " * 70 for number in range(30)]
    statuses: list[int] = []
    for body in bodies:
        reply = {"name": "reply_thread", "arguments": {"id": thread, "body": body}}
        statuses.append((await post(node, request("tools/call", reply))).status_code)
    assert statuses == sorted(statuses)
    assert {*statuses} == {200, 429}
    async with node.client_at("203.0.113.8") as other:
        by_http = [
            (await other.post(f"/api/v1/board/{thread}/replies", json={"body": body})).status_code for body in bodies
        ]
    assert 0 <= statuses.count(200) - by_http.count(201) <= 2, "the same, but for the bytes of short answers"


async def test_without_redis_what_needs_it_fails_and_the_rest_is_answered(tmp_path: Path) -> None:
    live = {"uri": "node://board/open-threads.json"}
    with RedisServer(tmp_path / "redis") as server:
        async with running(settings_for(server.url)) as node:
            server.kill()
            assert len((await result(node, "prompts/list"))["prompts"]) == 5
            told = await failed(node, "get_node_health")
            assert (told["status"], told["code"], told["retry_after"] > 0) == (503, "store.unavailable", True)
            assert (await error(node, "resources/read", live))["code"] == -32603
            assert "unavailable" in (await error(node, "resources/read", {"uri": "node://health.json"}))["message"]
            response = await stateless(node, "resources/read", live)
            assert (response.status_code, response.json()["error"]["code"]) == (500, -32603)


@pytest.mark.settings(limits=Limits(mcp=Limit(3, 60)))
async def test_every_request_counts_but_the_first_words_and_signs_of_life(node: NodeUnderTest) -> None:
    free = [request("ping"), {"jsonrpc": "2.0", "method": "notifications/initialized"}, request("no/such")]
    for _ in range(3):
        assert "ratelimit" not in (await post(node, handshake("2025-03-26"))).headers
        assert "ratelimit" not in (await post(node, free)).headers
    assert (await post(node, request("tools/list"))).headers["ratelimit"].startswith('"mcp";r=2;')
    listed, read, refused = (
        await post(
            node,
            [
                request(method, params)
                for method, params in (
                    ("prompts/list", None),
                    ("resources/read", {"uri": "node://health.json"}),
                    ("resources/list", None),
                )
            ],
        )
    ).json()
    assert "result" in listed
    assert "result" in read
    assert refused["error"]["code"] == -32005
    assert 0 < refused["error"]["data"]["retry_after"] <= 60
    response = await stateless(node, "tools/list")
    assert (response.status_code, response.json()["error"]["code"]) == (429, -32005)
    assert 0 < int(response.headers["retry-after"]) <= 60
    assert (await stateless(node, "server/discover")).status_code == 200


@pytest.mark.settings(limits=Limits(mcp=Limit(2, 60)))
async def test_a_call_of_an_unknown_tool_counts_and_beyond_the_limit_is_a_result(node: NodeUnderTest) -> None:
    unknown = request("tools/call", {"name": "no_such_tool"})
    for _ in range(2):
        assert (await post(node, unknown)).json()["error"]["code"] == -32602
    refused = (await post(node, unknown)).json()["result"]
    assert refused["isError"]
    assert "limit.exceeded" in refused["content"][0]["text"]


@pytest.mark.settings(limits=Limits(mcp=Limit(1, 60)))
async def test_the_documents_say_what_a_client_over_its_limit_is_told(node: NodeUnderTest) -> None:
    """Over MCP, this is not 429 with Retry-After as over plain HTTP."""
    first, call, other = [
        await post(node, request(method, params))
        for method, params in (
            ("tools/list", None),
            ("tools/call", {"name": "get_node_health"}),
            ("tools/list", None),
        )
    ]
    assert [each.status_code for each in (first, call, other)] == [200, 200, 200]
    told, refused = call.json()["result"], other.json()["error"]
    assert json.loads(told["content"][0]["text"]).keys() == refused["data"].keys()
    text = (await node.client.get("/llms-full.txt")).text
    (said,) = [line for line in text.splitlines() if line.startswith("A tool that fails")]
    assert {f"`{name}`" for name in ("isError", "data", *refused["data"])} == set(re.findall("`.+?`", said))
    assert f"error {refused['code']} " in said


async def test_calls_of_a_batch_run_one_after_the_other(node: NodeUnderTest) -> None:
    created = await result(node, "tools/call", {"name": "create_session"})
    session = created["structuredContent"]["session_id"]
    calls = [("session_send", {"id": session, "body": f"line {n}"}) for n in range(5)]
    calls.append(("session_poll", {"id": session}))
    batch = [request("tools/call", {"name": name, "arguments": given}, name) for name, given in calls]
    response = await post(node, batch)
    *_, polled = response.json()
    lines = polled["result"]["structuredContent"]["lines"]
    assert [line["body"] for line in lines] == [f"line {n}" for n in range(5)]
    assert len(response.headers.get_list("ratelimit")) == 1, "of many calls the last one says where the client stands"


async def test_of_several_unknown_arguments_the_first_is_named(node: NodeUnderTest) -> None:
    said = await failed(node, "get_thread", **{"x" * 1000: 1, "y": 2})
    assert said["error"] == f"Invalid arguments: {'x' * 60}: unknown; this tool takes id"
    assert (await failed(node, "get_thread", **{"a`b": 1}))["error"].startswith("Invalid arguments: a`b: unknown;")
