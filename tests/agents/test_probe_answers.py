"""What the answer to a probe says about an agent: whether it refuses in the form of its protocol (NETWORK 2)."""

import json
from typing import Any

import pytest

from node.agents.card import A2A_HTTP, A2A_RPC, MCP
from node.agents.probe import judged
from node.callbacks.attempt import Later, Unreachable
from node.callbacks.call import CallAnswer

Json = dict[str, Any]

STATUS: Json = {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "no message"}}
PROBLEM: Json = {"title": "Bad Request", "status": 400}
INITIALIZED: Json = {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-06-18"}}
OTHER_REVISION: Json = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32022, "data": {"supported": ["2026-07-28"]}}}


def refused(code: int, **members: Any) -> Json:
    """Return a JSON-RPC error."""
    return {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no message"}} | members


def answer(status: int, body: Json | bytes) -> CallAnswer:
    return CallAnswer(status, [], body if isinstance(body, bytes) else json.dumps(body).encode(), is_whole=True)


@pytest.mark.parametrize(
    ("binding", "status", "body"),
    [
        (A2A_HTTP, 400, STATUS),
        (A2A_HTTP, 400, {"error": {"code": 400, "message": "no message"}}),
        (A2A_HTTP, 400, {"error": {"status": "INVALID_ARGUMENT", "message": "no message"}}),
        (A2A_HTTP, 400, PROBLEM),
        (A2A_RPC, 200, refused(-32600)),
        (A2A_RPC, 400, refused(-32602)),
        (MCP, 200, INITIALIZED),
        (MCP, 400, OTHER_REVISION),
        (MCP, 400, refused(-32020)),
        (MCP, 200, b": hello\r\n\r\nevent: message\r\ndata: %b\r\n\r\n" % json.dumps(INITIALIZED).encode()),
        (MCP, 200, b"data: %b\n\n" % json.dumps(INITIALIZED, indent=0).replace("\n", "\ndata:").encode()),
    ],
)
def test_who_refuses_as_its_protocol_does_is_open(binding: str, status: int, body: Json | bytes) -> None:
    assert judged(binding, answer(status, body)) == "open"


@pytest.mark.parametrize(
    ("binding", "status", "body"),
    [
        (A2A_HTTP, 422, STATUS),
        (A2A_HTTP, 400, {"error": {"message": "no message"}}),
        (A2A_HTTP, 400, {"error": {"code": 400}}),
        (A2A_HTTP, 400, {"error": "no message"}),
        (A2A_HTTP, 404, PROBLEM),
        (A2A_HTTP, 400, {"title": "Not Found", "status": 404}),
        (A2A_HTTP, 400, {"status": 400}),
        (A2A_HTTP, 400, b'{"error":' * 100_000),
        (A2A_HTTP, 400, b'{"title": "\xff", "status": 400}'),
        (A2A_RPC, 200, refused(-32601)),
        (A2A_RPC, 200, refused(-32602, jsonrpc="1.0")),
        (A2A_RPC, 200, {"jsonrpc": "2.0", "id": 1, "result": {}}),
        (MCP, 200, {"jsonrpc": "2.0", "id": 1, "result": {}}),
        (MCP, 200, INITIALIZED | {"jsonrpc": "1.0"}),
        (MCP, 400, refused(-32602)),
        (MCP, 200, b": hello\n\n"),
    ],
)
def test_who_answers_in_any_other_way_does_not_speak_it(binding: str, status: int, body: Json | bytes) -> None:
    assert judged(binding, answer(status, body)) == "wrong_protocol"


@pytest.mark.parametrize("status", [401, 402, 403, 407])
def test_who_asks_for_credentials_or_payment_is_gated(status: int) -> None:
    assert judged(A2A_HTTP, answer(status, STATUS)) == "gated"


@pytest.mark.parametrize("status", [502, 503, 504])
def test_who_is_away_behind_its_proxy_is_unreachable(status: int) -> None:
    assert judged(A2A_HTTP, answer(status, STATUS)) == "unreachable"


def test_without_an_answer_it_depends_on_why() -> None:
    assert judged(MCP, Unreachable("no route")) == "unreachable"
    assert judged(MCP, Later(1000)) is None
    assert judged(A2A_HTTP, answer(429, STATUS)) is None
