"""The OpenAPI document says what A2A operations accept, and which operations the node always refuses."""

from typing import Any, get_args, get_type_hints

import pytest
import pytest_asyncio

from node.a2a.documented import ListParameters, RpcBody
from node.tasks.model import TaskPageQuery
from tests.inbox.calls import opened, path_of
from tests.support.node_under_test import NodeUnderTest

AGENT = "/api/v1/inboxes/{address}/a2a"
CONFIGS = "/api/v1/tasks/{id}/pushNotificationConfigs"
SIGNED = {f"#/components/parameters/{name}" for name in ("Signature", "Signature-Input", "Signature-Key")}

Json = dict[str, Any]


@pytest_asyncio.fixture
async def paths(node: NodeUnderTest) -> Json:
    return (await node.client.get("/openapi.json")).json()["paths"]


async def test_every_body_of_the_protocol_has_a_type(paths: Json) -> None:
    for path, name in (
        ("/api/v1/message:send", "SendMessageBody"),
        ("/api/v1/a2a/tasks", "SendMessageBody"),
        ("/api/v1/tasks/{id}:cancel", "CancelBody"),
        (AGENT, "RpcBody"),
        (f"{AGENT}/message:send", "InboxMessageBody"),
        (f"{AGENT}/message:stream", "InboxMessageBody"),
    ):
        body = paths[path]["post"]["requestBody"]
        assert body["content"]["application/json"]["schema"] == {"$ref": f"#/components/schemas/{name}"}
        assert body["required"] is (name != "CancelBody")


def test_a_parameter_of_contracts_is_documented_as_it_is_checked() -> None:
    """A parameter must not be documented as any string, such as `since`, if the node answers 422 to values that it did
    not issue.
    """
    checked, documented = (get_type_hints(each, include_extras=True) for each in (TaskPageQuery, ListParameters))
    for name in checked.keys() - {"status"}:
        assert checked[name] in (documented[name], *get_args(documented[name])), name


async def test_what_is_never_done_has_no_success(paths: Json) -> None:
    refused = [
        ("post", "/api/v1/message:stream"),
        ("post", "/api/v1/tasks/{id}:subscribe"),
        ("get", "/api/v1/tasks/{id}:subscribe"),
        ("get", "/api/v1/extendedAgentCard"),
        ("get", f"{AGENT}/extendedAgentCard"),
        *((method, CONFIGS) for method in ("get", "post")),
        *((method, f"{CONFIGS}/{{config_id}}") for method in ("get", "delete")),
    ]
    for method, path in refused:
        assert paths[path][method]["responses"].keys() == {"400", "default"}, path


async def test_what_an_inbox_answers_comes_in_either_media_type(paths: Json) -> None:
    contents = {
        (method, path): operation["responses"]["200"]["content"].keys()
        for path, methods in paths.items()
        for method, operation in methods.items()
        if path.startswith(f"{AGENT}/") and "agent-card" not in path and "200" in operation["responses"]
    }
    either = {"application/json", "application/a2a+json"}
    assert [each for each, types in contents.items() if types not in (either, {"text/event-stream"})] == []
    assert ("post", f"{AGENT}/message:send") in contents


async def test_a_call_may_be_answered_by_a_stream(paths: Json) -> None:
    content = paths[AGENT]["post"]["responses"]["200"]["content"]
    assert content.keys() == {"application/json", "text/event-stream"}


@pytest.mark.parametrize("path", ["/api/v1/a2a/tasks", "/api/v1/tasks/{id}:cancel"])
async def test_what_may_be_signed_says_so(paths: Json, path: str) -> None:
    assert {each.get("$ref") for each in paths[path]["post"]["parameters"]} > SIGNED


async def test_every_method_that_is_documented_is_known(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    for method in get_args(get_type_hints(RpcBody)["method"]):
        call = {"jsonrpc": "2.0", "id": 1, "method": method}
        answer = (await node.client.post(path_of(inbox, "/a2a"), json=call)).json()
        assert answer.get("error", {}).get("code") != -32601, method
