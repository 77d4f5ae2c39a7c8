"""Forms that official clients send and ProtoJSON allows: empty for unset, numbers in other notations, file names."""

from typing import Any

import msgspec
import pytest

from node.a2a.proto_json import integer, state
from tests.a2a.calls import A2A, OFFER, SEND
from tests.inbox.calls import opened, path_of
from tests.support.answers import NOT_ENGLISH, json_of
from tests.support.node_under_test import NodeUnderTest

TEXT = "Translate this memo into plain words."


def message(**fields: Any) -> dict[str, Any]:
    return {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": TEXT}]} | fields


async def made(node: NodeUnderTest, path: str, body: dict[str, Any]) -> dict[str, Any]:
    return json_of(await node.client.post(path, json=body, headers=A2A))["task"]


@pytest.mark.parametrize(
    ("given", "read"), [(3, 3), (3.0, 3), ("3", 3), ("-3", -3), (3.5, 3.5), ("3.0", "3.0"), (1e300, 1e300), ("x", "x")]
)
def test_an_integer_has_several_forms(given: object, read: object) -> None:
    assert (integer(given), type(integer(given))) == (read, type(read))


@pytest.mark.parametrize(
    ("given", "read"), [(3, "TASK_STATE_COMPLETED"), (0, "TASK_STATE_UNSPECIFIED"), (9, 9), (True, True), ("x", "x")]
)
def test_a_state_may_be_its_number(given: object, read: object) -> None:
    assert state(given) == read


@pytest.mark.parametrize("path", [SEND, OFFER])
async def test_an_empty_id_is_none(node: NodeUnderTest, path: str) -> None:
    task = await made(node, path, {"message": message(contextId="", taskId="", context_id="")})
    assert len(task["contextId"]) > 20


async def test_an_empty_id_begins_a_task_of_an_inbox(node: NodeUnderTest) -> None:
    body = {"message": message(contextId="", taskId=""), "configuration": {"returnImmediately": True}}
    task = await made(node, path_of(await opened(node), "/a2a/message:send"), body)
    assert len(task["contextId"]) > 20


@pytest.mark.parametrize("length", [0, 0.0, "0"])
async def test_a_length_of_history_may_be_any_integer(node: NodeUnderTest, length: object) -> None:
    body = {"message": message(), "configuration": {"historyLength": length}}
    assert "history" not in await made(node, SEND, body)


async def test_of_a_repeated_length_of_history_only_the_last_is_read(node: NodeUnderTest) -> None:
    """Converting every one of them would take 0.4 s for 1 MiB of `"historyLength":1e300,`."""
    body = (
        msgspec.json.encode({"message": message()})[:-1] + b',"configuration":{"historyLength":[],"historyLength":0}}'
    )
    response = await node.client.post(SEND, content=body, headers=A2A | {"content-type": "application/json"})
    assert "history" not in response.json()["task"]


@pytest.mark.parametrize("length", [-1, "-1", 0.5, "x", True, 10**45])
async def test_a_length_of_history_that_is_none_is_refused(node: NodeUnderTest, length: object) -> None:
    body = {"message": message(), "configuration": {"historyLength": length}}
    response = await node.client.post(SEND, json=body, headers=A2A)
    [_, fields] = response.json()["error"]["details"]
    assert (response.status_code, fields["fieldViolations"][0]["field"]) == (400, "configuration.historyLength")


async def test_the_params_of_json_rpc_have_numbers_in_any_form(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    body = {"message": message(contextId="c"), "configuration": {"returnImmediately": True}}
    task = await made(node, path_of(inbox, "/a2a/message:send"), body)

    async def called(method: str, params: dict[str, Any]) -> dict[str, Any]:
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return (await node.client.post(path_of(inbox, "/a2a"), json=call)).json()

    for page_size, status in (("3", 1), (3.0, "TASK_STATE_SUBMITTED"), (3, 0)):
        listed = await called("ListTasks", {"contextId": "c", "pageSize": page_size, "status": status})
        assert (listed["result"]["pageSize"], len(listed["result"]["tasks"])) == (3, 1)
    assert (await called("ListTasks", {"contextId": "c", "status": 3}))["result"]["totalSize"] == 0
    assert "history" not in (await called("GetTask", {"id": task["id"], "historyLength": "0"}))["result"]
    for wrong in ({"pageSize": "many"}, {"pageSize": 1.5}, {"status": 99}):
        assert (await called("ListTasks", {"contextId": "c"} | wrong))["error"]["code"] == -32602


async def test_metadata_of_an_offer_is_a_struct_of_the_protocol(node: NodeUnderTest) -> None:
    """Official clients send every number in metadata with a fraction."""
    said = {"leaseSeconds": 60.0, "requireProof": None, "publisherId": "2026", "title": None}
    task = await made(node, OFFER, {"message": message(metadata=said)})
    contract = (await node.client.get(f"/api/v1/tasks/{task['id']}")).json()
    assert (contract["lease_seconds"], contract["require_proof"]) == (60, False)
    assert (contract["publisher_id"], contract["title"]) == ("2026", TEXT)
    unset = await made(node, OFFER, {"message": message(metadata={"publisherId": "", "title": ""})})
    assert (unset["metadata"]["publisherId"], unset["metadata"]["title"]) == ("a2a:m", TEXT)
    for wrong in (60.5, 1e300, "soon", 5):
        response = await node.client.post(OFFER, json={"message": message(metadata={"leaseSeconds": wrong})})
        [_, fields] = response.json()["error"]["details"]
        assert fields["fieldViolations"][0]["field"] == "message.metadata.leaseSeconds"


async def test_a_part_keeps_the_name_of_its_file(node: NodeUnderTest) -> None:
    parts = [{"text": TEXT, "filename": "memo.txt"}, {"text": "Two pages.", "filename": ""}]
    task = await made(node, SEND, {"message": message(parts=parts)})
    assert task["history"][0]["parts"] == [parts[0], {"text": "Two pages."}]
    hidden = [{"text": TEXT, "filename": "me\u202emo\x1b[2J.txt"}]
    task = await made(node, SEND, {"message": message(parts=hidden)})
    assert task["history"][0]["parts"][0]["filename"] == "memo.txt"


FOREIGN = "Hola mundo amigo, necesito tu ayuda con este texto tan largo"


@pytest.mark.parametrize(
    ("path", "said", "field"),
    [
        (SEND, {"parts": [{"text": FOREIGN}]}, "message.parts.0.text"),
        (SEND, {"parts": [{"text": "Hello."}, {"text": FOREIGN}]}, "message.parts"),
        (OFFER, {"parts": [{"text": "Hello."}, {"text": FOREIGN}]}, "message.parts"),
        (OFFER, {"parts": [{"text": FOREIGN}]}, "message.parts.0.text"),
        (OFFER, {"metadata": {"title": FOREIGN}}, "message.metadata.title"),
    ],
)
async def test_what_is_not_english_is_named(node: NodeUnderTest, path: str, said: dict[str, Any], field: str) -> None:
    response = await node.client.post(path, json={"message": message(**said)}, headers=A2A)
    error = response.json()["error"]
    [_, fields] = error["details"]
    assert (response.status_code, [each["field"] for each in fields["fieldViolations"]]) == (400, [field])
    assert error["message"] == f"{NOT_ENGLISH}{field}."
