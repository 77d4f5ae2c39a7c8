"""`relay-node admin tasks`, on a real node."""

import asyncio

import msgspec
import pytest

from node.store import keys
from node.tasks.store import TaskStore
from tests.admin.conftest import Admin
from tests.support.node_under_test import NodeUnderTest, until
from tests.support.servers import WOKEN
from tests.tasks.calls import OFFER, TASKS, act, claimed, let_end, offered, told
from tests.tasks.test_unreadable_contracts import Break, change_the_format, lose_a_field, lose_the_claim

UNKNOWN = "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"


async def test_the_operator_calls_off_what_is_not_over(node: NodeUnderTest, admin: Admin) -> None:
    offer, taken, done = await offered(node), await claimed(node), await claimed(node)
    await act(node, done, "complete", claim_token=done["claim_token"], result_payload=1)
    dry = await admin("tasks", "cancel", offer["id"], "--dry-run", "--json")
    assert (dry.status, dry.data[0]["task"]["status"]) == (0, "offered")
    ran = await admin("tasks", "cancel", offer["id"], taken["id"], done["id"], UNKNOWN, "--json")
    outcomes = [each["outcome"] for each in ran.data]
    assert (ran.status, outcomes) == (1, ["canceled", "canceled", "task.state", "task.unknown"])
    assert (await node.client.get(f"{TASKS}/{offer['id']}")).json()["status"] == "canceled"
    late = await act(node, taken, "complete", claim_token=taken["claim_token"], result_payload=1)
    assert late.status_code in (403, 409)
    assert (await admin("tasks", "list", "--json")).data == {"tasks": [], "total": 0}


async def test_the_operator_removes_a_contract_whatever_its_status(node: NodeUnderTest, admin: Admin) -> None:
    offer, done = await offered(node), await claimed(node)
    await act(node, done, "complete", claim_token=done["claim_token"], result_payload=1)
    dry = await admin("tasks", "purge", done["id"], "--dry-run", "--json")
    assert (dry.status, dry.data[0]["task"]["status"]) == (0, "completed")
    assert (await node.client.get(f"{TASKS}/{done['id']}")).status_code == 200
    waiting = asyncio.create_task(node.client.get(f"{TASKS}/{offer['id']}", params={"wait": 30, "status": "offered"}))
    await node.listened_to(keys.task(offer["id"]))
    ran = await admin("tasks", "purge", offer["id"], done["id"], UNKNOWN, "--json")
    assert (ran.status, [each["outcome"] for each in ran.data]) == (1, ["purged", "purged", "task.unknown"])
    for task, status in ((offer, "offered"), (done, "completed")):
        assert (await node.client.get(f"{TASKS}/{task['id']}")).status_code == 404
        assert (await admin("tasks", "list", "--status", status, "--json")).data == {"tasks": [], "total": 0}
        assert (await told(node.store, task["id"]))[-1]["type"] == "task.forgotten"
    assert (await asyncio.wait_for(waiting, WOKEN)).status_code == 404
    assert await TaskStore(node.store, 60).forget({offer["id"]: ""}) == [], "it is not removed again"


async def test_a_result_is_shown_as_it_was_given(node: NodeUnderTest, admin: Admin) -> None:
    done = await claimed(node)
    result = '{"claim_token": %s, "result_payload": {"sum": 0.1000000000000000000001, "name": "a\u202eb"}}'
    body = (result % msgspec.json.encode(done["claim_token"]).decode()).encode()
    answer = await node.client.post(
        f"{TASKS}/{done['id']}/complete", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 200, answer.text
    shown = (await admin("tasks", "show", done["id"], "--json")).out
    assert "0.1000000000000000000001" in shown
    assert shown.isascii()
    (listed,) = (await admin("tasks", "list", "--status", "completed", "--json")).data["tasks"]
    assert listed["id"] == done["id"]


async def test_a_contract_is_shown_without_what_moves_a_terminal(node: NodeUnderTest, admin: Admin) -> None:
    offer = await offered(node)
    await node.store.command("HSET", keys.task(offer["id"]), "description", "a\x1b[2Jb\nc")
    assert (await admin("tasks", "show", offer["id"])).out.splitlines()[-2:] == ["ab", "c"]
    assert (await admin("tasks", "show", UNKNOWN)).status == 1


async def test_the_operator_sees_which_address_offered_a_contract(node: NodeUnderTest, admin: Admin) -> None:
    async with node.client_at("203.0.113.9") as client:
        offer = (await client.post(TASKS, json=OFFER)).json()
    assert (await admin("tasks", "show", offer["id"], "--json")).data["client"] is None, "no worker has noted it yet"

    async def is_noted() -> bool:
        return (await admin("tasks", "show", offer["id"], "--json")).data["client"] == "203.0.113.9"

    async with node.worker():
        await until(is_noted)
    assert "from 203.0.113.9" in (await admin("tasks", "show", offer["id"])).out
    assert "203.0.113.9" not in (await node.client.get(f"{TASKS}/{offer['id']}")).text
    (found,) = (await admin("clients", "posts", "203.0.113.9", "--json")).data
    assert (found["kind"], found["id"]) == ("contract", offer["id"])


@pytest.mark.parametrize("spoil", [lose_a_field, lose_the_claim, change_the_format])
async def test_a_contract_whose_record_is_damaged_can_be_removed(
    node: NodeUnderTest, admin: Admin, spoil: Break
) -> None:
    """Neither this command nor the one that removes everything of an address may end in a traceback."""
    offer = await claimed(node, lease_seconds=60, max_attempts=2)
    await let_end(node.store, offer["id"])
    await spoil(node, offer["id"])
    dry = await admin("tasks", "purge", offer["id"], "--dry-run", "--json")
    assert (dry.status, dry.data) == (0, [{"id": offer["id"], "outcome": "dry run", "task": None}])
    ran = await admin("tasks", "purge", offer["id"], UNKNOWN, "--json")
    assert (ran.status, [each["outcome"] for each in ran.data]) == (1, ["purged", "task.unknown"])
    assert await node.store.command("EXISTS", keys.task(offer["id"]), keys.packed(offer["id"])) == 0
