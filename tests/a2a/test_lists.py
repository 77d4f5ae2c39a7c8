"""ListTasks: who sees which context, and pages that stay consistent while tasks come and go."""

from typing import Any

import httpx2
import pytest

from node.inbox.model import InboxTask
from node.inbox.tasks import InboxTasks
from node.store import keys
from tests.a2a.calls import A2A
from tests.a2a.inbox_calls import begun, message
from tests.inbox.calls import opened, path_of, settled
from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import RedisServer

CONTEXT = "a long talk"
CLIENT = "203.0.113.7"


async def say(node: NodeUnderTest, text: str) -> str:
    body = {
        "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], "contextId": CONTEXT},
    }
    return (await node.client.post("/api/v1/message:send", json=body, headers=A2A)).json()["task"]["id"]


async def page(node: NodeUnderTest, **query: str) -> dict[str, Any]:
    return json_of(await node.client.get("/api/v1/tasks", params={"contextId": CONTEXT} | query, headers=A2A))


async def sent(client: httpx2.AsyncClient, context: str | None = None) -> dict[str, Any]:
    """Return the id of the task of a message in this context, or in one that the node creates."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello from an agent."}], "contextId": context}
    return (await client.post("/api/v1/message:send", json={"message": message}, headers=A2A)).json()["task"]


async def listed(client: httpx2.AsyncClient, context: str) -> list[str]:
    """Return the ids of the context's tasks, as this client sees them."""
    response = await client.get("/api/v1/tasks", params={"contextId": context}, headers=A2A)
    assert response.headers["cache-control"] == "no-store"
    found = response.json()
    assert found["totalSize"] == len(found["tasks"])
    return [task["id"] for task in found["tasks"]]


@pytest.mark.parametrize(
    "name", ["default", "ctx-1", "6dbc13b5-bd57-4c2b-b503-24e381b6c8d6", "01a2042e-2b8a-7ab8-a792-3c50c2fb9185"]
)
async def test_a_context_that_a_client_named_shows_others_nothing(node: NodeUnderTest, name: str) -> None:
    """Otherwise whoever guesses a name such as "default" could read what others said there. A client's name may look
    like an id of the node's.
    """
    async with node.client_at("198.51.100.9") as stranger:
        mine = await sent(node.client, name)
        assert mine["contextId"] == name
        assert await listed(stranger, name) == []
        theirs = await sent(stranger, name)
        assert await listed(stranger, name) == [theirs["id"]]
    assert await listed(node.client, name) == [mine["id"]]


async def test_a_context_that_the_node_named_is_open_to_whom_its_id_was_told(node: NodeUnderTest) -> None:
    first = await sent(node.client)
    context = first["contextId"]
    async with node.client_at("198.51.100.9") as peer:
        assert await listed(peer, context) == [first["id"]]
        answer = await sent(peer, context)
        assert sorted(await listed(peer, context)) == sorted([first["id"], answer["id"]])
    assert sorted(await listed(node.client, context)) == sorted([first["id"], answer["id"]])


async def test_tasks_that_come_while_a_client_reads_shift_no_page(node: NodeUnderTest) -> None:
    said = [await say(node, f"This is message number {n}") for n in range(6)]
    first = await page(node, pageSize="2")
    await say(node, "One more message in between")
    second = await page(node, pageSize="2", pageToken=first["nextPageToken"])
    third = await page(node, pageSize="2", pageToken=second["nextPageToken"])
    seen = [task["id"] for each in (first, second, third) for task in each["tasks"]]
    assert seen == said[::-1]
    assert third["nextPageToken"] == ""
    assert (first["totalSize"], third["totalSize"]) == (6, 7)


async def test_tasks_of_one_millisecond_are_each_listed_once(node: NodeUnderTest) -> None:
    said = [await say(node, f"This is message number {n}") for n in range(7)]
    for task_id in said:
        await node.store.command("ZADD", keys.context(CONTEXT, CLIENT), 1_800_000_000_000, task_id)
    seen: list[str] = []
    token = ""
    while True:
        found = await page(node, pageSize="3", pageToken=token)
        seen += [task["id"] for task in found["tasks"]]
        token = found["nextPageToken"]
        if not token:
            break
    assert len(seen) == len(set(seen)) == len(said)


async def test_a_task_whose_time_is_over_is_left_out_and_forgotten(node: NodeUnderTest) -> None:
    gone, kept = [await say(node, f"This is message number {n}") for n in range(2)]
    await node.store.command("DEL", keys.task(gone))
    await node.store.command("ZADD", keys.context(CONTEXT, CLIENT), 1, gone)
    assert [task["id"] for task in (await page(node))["tasks"]] == [kept]
    last = await say(node, "The last message")
    found = await page(node, pageSize="2")
    assert [task["id"] for task in found["tasks"]] == [last, kept]
    assert (found["totalSize"], found["nextPageToken"]) == (2, "")


@pytest.mark.parametrize("damage", [("HDEL", "created_at"), ("HSET", "message", "{")], ids=["lost", "cut off"])
async def test_a_task_that_cannot_be_read_is_left_out(node: NodeUnderTest, damage: tuple[str, ...]) -> None:
    whole, damaged = await say(node, "Hello from agent A."), await say(node, "Hello from agent B.")
    command, *rest = damage
    await node.store.command(command, keys.task(damaged), *rest)
    assert [task["id"] for task in (await page(node))["tasks"]] == [whole]


async def test_tasks_whose_time_is_over_at_once_are_forgotten_some_at_a_time(node: NodeUnderTest) -> None:
    context = keys.context(CONTEXT, CLIENT)
    await node.store.command("ZADD", context, *(number // 2 for number in range(3000)))
    said: list[str] = []
    left: list[object] = []
    for _ in range(2):
        said.append(await say(node, "A message of today"))
        left.append(await node.store.command("ZCARD", context))
    assert left == [501, 2]
    assert [task["id"] for task in (await page(node))["tasks"]] == said[::-1]


async def test_of_long_messages_a_page_has_few_and_none_is_read_that_is_not_shown(
    node: NodeUnderTest, empty_redis: RedisServer
) -> None:
    size = 400_000
    metadata = {"notes": "x" * size}
    for _ in range(6):
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello from an agent."}]}
        message |= {"contextId": CONTEXT, "metadata": metadata}
        assert (await node.client.post("/api/v1/message:send", json={"message": message}, headers=A2A)).is_success

    async def read_for(path: str, **query: Any) -> int:
        before = empty_redis.info("stats")["total_net_output_bytes"]
        assert (await node.client.get(path, params=query, headers=A2A)).status_code == 200
        return empty_redis.info("stats")["total_net_output_bytes"] - before

    first = await page(node)
    assert (len(first["tasks"]), first["totalSize"]) == (3, 6)
    second = await page(node, pageToken=first["nextPageToken"])
    assert (len(second["tasks"]), second["nextPageToken"]) == (3, "")
    assert len({task["id"] for task in first["tasks"] + second["tasks"]}) == 6
    task_id = first["tasks"][0]["id"]
    assert await read_for(f"/api/v1/tasks/{task_id}") > size
    assert await read_for(f"/api/v1/tasks/{task_id}", historyLength=0) < size
    assert await read_for("/api/v1/tasks", contextId=CONTEXT) < 4 * size
    assert await read_for("/api/v1/tasks", contextId=CONTEXT, historyLength=0) < size
    short = await page(node, historyLength="0")
    assert (len(short["tasks"]), short["nextPageToken"]) == (6, "")
    before = empty_redis.info("stats")["total_net_output_bytes"]
    assert (await node.client.post(f"/api/v1/tasks/{task_id}:cancel", headers=A2A)).status_code == 400
    assert empty_redis.info("stats")["total_net_output_bytes"] - before < size


@pytest.mark.parametrize(
    ("query", "expected"),
    [({}, ["COMPLETED", "SUBMITTED"]), ({"status": "TASK_STATE_SUBMITTED"}, ["SUBMITTED"]), ({"pageToken": ""}, [])],
)
async def test_a_task_of_an_inbox_that_changes_while_it_is_read_is_only_on_a_page_where_it_belongs(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, query: dict[str, str], expected: list[str]
) -> None:
    """The page is made up of the tasks as they stood, and then each of them is read."""
    inbox = await opened(node)
    older = await begun(node, inbox)
    in_context, path = {"contextId": older["contextId"]}, path_of(inbox, "/a2a/tasks")
    await begun(node, inbox, message(**in_context))
    if "pageToken" in query:
        first = json_of(await node.client.get(path, params=in_context | {"pageSize": "1"}))
        query = {"pageToken": first["nextPageToken"]}
    of_context = InboxTasks.of_context

    async def then_settled(*args: Any) -> list[InboxTask]:
        found = await of_context(*args)
        assert (await settled(node, inbox, older)).status_code == 200
        return found

    monkeypatch.setattr(InboxTasks, "of_context", then_settled)
    tasks = json_of(await node.client.get(path, params=in_context | query))["tasks"]
    assert tasks == sorted(tasks, key=lambda task: (task["status"]["timestamp"], task["id"]), reverse=True)
    assert sorted(task["status"]["state"].removeprefix("TASK_STATE_") for task in tasks) == expected
