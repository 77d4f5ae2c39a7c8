"""Every type of callback that the node sends has the body that the documents publish."""

from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator

from node.callbacks.envelope import CALLBACKS
from node.callbacks.model import CallbackBody
from node.callbacks.target import WEB_PORTS
from node.sign.node_key import NodeKey
from tests.callbacks.receiver import Receiver
from tests.support.node_under_test import SIGNING_KEY, NodeUnderTest
from tests.support.servers import eventually

PUBLIC = NodeKey.parse(SIGNING_KEY).public.raw
NEEDS_TIME = {"task.expired"}
"""Types sent only when a lease ends, which takes at least 30 s. Their body is the same as for all changes of a
contract.
"""


pytestmark = pytest.mark.settings(callback_allow_private=True)


async def post(node: NodeUnderTest, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await node.client.post(f"/api/v1/{path}", json=body)
    assert answer.is_success, answer.text
    return answer.json()


async def cause_all(node: NodeUnderTest, callback_url: str) -> None:
    """Cause every kind of event that callbacks report."""
    to = {"callback_url": callback_url}
    thread = await post(node, "board", {"title": "A question about files", "body": "Who parses them?"} | to)
    await post(node, f"board/{thread['id']}/replies", {"body": "I can help you."})
    relayed = await post(node, "relay", {"message": "Who can summarise a report?"} | to)
    await post(node, f"board/{relayed['reference_id']}/replies", {"body": "I can help you."})
    session = await post(node, "sessions", to)
    await post(node, f"sessions/{session['session_id']}/messages", {"body": "a line"})
    inbox = await post(node, "inboxes", to)
    await post(node, f"inboxes/{inbox['address']}/messages", {"body": "a message"})
    offer = {"publisher_id": "p", "title": "Summarise a report"} | to
    done, canceled = await post(node, "tasks", offer), await post(node, "tasks", offer)
    claim = await post(node, f"tasks/{done['id']}/claim", {"assignee_id": "w"})
    await post(node, f"tasks/{done['id']}/transition", {"actor_id": "w"})
    await post(node, f"tasks/{done['id']}/complete", {"claim_token": claim["claim_token"], "result_payload": 1})
    await post(node, f"tasks/{canceled['id']}/cancel", {"publisher_token": canceled["publisher_token"]})
    await cause_detours(node, offer)


async def cause_detours(node: NodeUnderTest, offer: dict[str, Any]) -> None:
    """Let a contract be released, have a result rejected, fail its next attempt, and be offered again."""
    task = await post(node, "tasks", offer | {"review_seconds": 600})
    path = f"tasks/{task['id']}"
    claim = await post(node, f"{path}/claim", {"assignee_id": "w"})
    await post(node, f"{path}/release", {"claim_token": claim["claim_token"]})
    token = {"claim_token": (await post(node, f"{path}/claim", {"assignee_id": "w"}))["claim_token"]}
    await post(node, f"{path}/complete", token | {"result_payload": 1})
    await post(node, f"{path}/reject", {"publisher_token": task["publisher_token"], "reason": "Once more, please."})
    await post(node, f"{path}/fail", token | {"code": "it.broke"})
    await post(node, f"{path}/retry", {"publisher_token": task["publisher_token"]})


async def test_what_is_sent_fits_the_published_schema(node: NodeUnderTest) -> None:
    schema = (await node.client.get("/schema.json")).json()
    async with Receiver(PUBLIC) as receiver, node.worker():
        await cause_all(node, receiver.url)

        def told() -> bool:
            return {message["type"] for _, message in receiver.messages} >= CALLBACKS.keys() - NEEDS_TIME

        await eventually(told)
    for _, message in receiver.messages:
        name = CALLBACKS[message["type"]].__name__
        validator: Any = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]})
        validator.validate(message)
        told_of = schema["$defs"][schema["$defs"][name]["properties"]["data"]["$ref"].rpartition("/")[2]]
        assert message["data"].keys() == told_of["properties"].keys()
        if "/api/v1/" in (where := message["data"].get("api_url") or message["data"]["url"]):
            status = 401 if "/inboxes/" in where else 200
            assert (await node.client.get(where.removeprefix("http://node.example"))).status_code == status


async def test_an_operation_that_takes_a_callback_url_says_what_is_sent_there(node: NodeUnderTest) -> None:
    document = (await node.client.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    documented: set[str] = set()
    for path, methods in document["paths"].items():
        body = methods.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
        members = schemas.get(body.get("schema", {}).get("$ref", "").rpartition("/")[2], {}).get("properties", {})
        if "callback_url" not in members:
            continue
        ports = members["callback_url"]["description"].partition("port ")[2]
        assert all(str(port) in ports for port in WEB_PORTS), path
        for name, callback in methods["post"]["callbacks"].items():
            sent = callback["{$request.body#/callback_url}"]["post"]["requestBody"]["content"]["application/json"]
            assert sent["schema"] == {"$ref": f"#/components/schemas/{name}"}
            assert sent["example"]["type"] in schemas[name]["properties"]["type"]["enum"]
            documented.add(name)
    assert documented == {kind.__name__ for kind in get_args(CallbackBody)}


async def test_llms_full_tells_every_type_and_its_data(node: NodeUnderTest) -> None:
    section = (await node.client.get("/llms-full.txt")).text.partition("\n## Callbacks\n")[2].partition("\n## ")[0]
    for name in CALLBACKS:
        assert f"`{name}`" in section
    for member in ("thread_id", "seq", "api_url", "task_id", "attempt", "session_id", "callback_host"):
        assert f"`data.{member}`" in section
