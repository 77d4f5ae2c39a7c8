"""A contract that cannot be read, such as one written by a later version of the node, does not hide other contracts."""

from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from node.store import ids, keys
from node.store.decoding import fields_of
from node.tasks.compaction import pack
from node.tasks.store import NOT_LAPSED
from tests.support.node_under_test import NodeUnderTest, until
from tests.tasks.calls import OFFER, TASKS, act, claimed, let_end, offered, tasks_on, told

Break = Callable[[NodeUnderTest, str], Awaitable[object]]


pytestmark = pytest.mark.settings(embedding_model="none")


async def lose_a_field(node: NodeUnderTest, task_id: str) -> None:
    await node.store.command("HDEL", keys.task(task_id), "title")


async def change_fields(node: NodeUnderTest, task_id: str) -> None:
    await node.store.command("HSET", keys.task(task_id), "created_at", "today", "skills", "{", "more", 1)


async def change_the_type(node: NodeUnderTest, task_id: str) -> None:
    await node.store.command("DEL", keys.task(task_id))
    await node.store.command("SET", keys.task(task_id), "no contract")


async def change_the_format(node: NodeUnderTest, task_id: str) -> None:
    packed = pack(fields_of(await node.store.command("HGETALL", keys.task(task_id))))
    await node.store.command("SET", keys.packed(task_id), b"\x07" + packed[1:])
    await node.store.command("DEL", keys.task(task_id))


async def listed(node: NodeUnderTest, **query: str) -> tuple[set[str], int]:
    """Return the ids in a list, and its total."""
    page = (await node.client.get(TASKS, params=query)).json()
    assert "incomplete" not in page
    return {each["id"] for each in page["tasks"]}, page["total"]


@pytest.mark.parametrize("spoil", [lose_a_field, change_fields, change_the_type])
async def test_an_offer_that_cannot_be_read_hides_no_other(node: NodeUnderTest, spoil: Break) -> None:
    first, broken, last = [await offered(node) for _ in range(3)]
    sound, publisher = {first["id"], last["id"]}, OFFER["publisher_id"]
    await spoil(node, broken["id"])
    with capture_logs() as logs:
        assert await listed(node, status="offered") == (sound, 2)
        assert await listed(node, status="offered", publisher_id=publisher) == (sound, 2)
        assert await listed(node, status="offered", since="0-0") == (sound, 2)
        for page in ("/", "/tasks"):
            html = (await node.client.get(page)).text
            assert all(each in html for each in sound), page
    assert [line["entity"] for line in logs if line["log_level"] == "error"] == [broken["id"]], "said once"
    claims = [await node.client.post(f"{TASKS}/claim-next", json={"assignee_id": "w"}) for _ in range(3)]
    assert sound == {claim.json()["id"] for claim in claims if claim.status_code == 200}
    assert (await node.client.get(f"{TASKS}/{broken['id']}")).status_code == 500


@pytest.mark.parametrize("spoil", [lose_a_field, change_fields, change_the_type, change_the_format])
async def test_a_contract_that_is_over_and_cannot_be_read_hides_no_other(node: NodeUnderTest, spoil: Break) -> None:
    broken, sound = await claimed(node), await claimed(node)
    for task in (broken, sound):
        await act(node, task, "complete", claim_token=task["claim_token"], result_payload=7)
    await spoil(node, broken["id"])
    assert await listed(node, status="completed") == ({sound["id"]}, 1)
    await tasks_on(node.store).project(broken["id"], sound["id"])
    assert await node.store.command("ZSCORE", keys.tasks_with("completed"), broken["id"]) is not None

    async def told() -> bool:
        query = {"topic": "tasks", "cursor": "earliest", "types": "task.completed"}
        events = (await node.client.get("/api/v1/events", params=query)).json()["events"]
        return {each["data"]["id"] for each in events} == {sound["id"]}

    async with node.worker():
        await until(told)
    assert (await node.client.get(f"{TASKS}/{broken['id']}")).status_code == 500


async def lose_the_claim(node: NodeUnderTest, task_id: str) -> None:
    await node.store.command("HDEL", keys.task(task_id), "claimed_at", "claim")


@pytest.mark.parametrize("spoil", [lose_the_claim, change_the_type])
async def test_a_contract_that_time_cannot_change_keeps_no_other_from_its_time(
    node: NodeUnderTest, spoil: Break
) -> None:
    """Otherwise the sweep fails on it every second, and lists nothing that it has changed."""
    broken, sound = [await claimed(node, lease_seconds=60, max_attempts=2) for _ in range(2)]
    for task in (broken, sound):
        await let_end(node.store, task["id"])
    await spoil(node, broken["id"])
    tasks = tasks_on(node.store)
    with capture_logs() as logs:
        assert [await tasks.sweep(), await tasks.sweep()] == [2, 0], "it is not the first one that is due for ever"
        await node.store.command("ZADD", keys.leases_of(broken["id"]), 1, broken["id"])
        assert await tasks.sweep() == 1, "it is looked at again"
    said = [(line["event"], line["entity"]) for line in logs if line["log_level"] == "error"]
    assert said == [(NOT_LAPSED, broken["id"])], "said once"
    assert await node.store.command("ZSCORE", keys.tasks_with("offered"), sound["id"]) is not None
    assert (await told(node.store, sound["id"]))[-1]["type"] == "task.expired"


async def test_no_number_of_such_contracts_keeps_another_from_its_time(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.tasks.service.SWEEP_LIMIT", 1)
    sound = await claimed(node, lease_seconds=60)
    await let_end(node.store, sound["id"])
    leases = keys.leases_of(sound["id"])
    for _ in range(3):
        broken = ids.new_id(ids.partition_of_id(sound["id"]))
        await node.store.command("SET", keys.task(broken), "no contract")
        await node.store.command("ZADD", leases, 0, broken)
    tasks = tasks_on(node.store)
    while await tasks.sweep():
        pass
    assert await node.store.command("ZSCORE", keys.tasks_with("offered"), sound["id"]) is not None
