"""ListTasks: pages that hold while tasks come and go."""

from typing import Any

from node.store import keys
from tests.node_under_test import NodeUnderTest

A2A = {"a2a-version": "1.0"}
CONTEXT = "a long talk"


async def say(node: NodeUnderTest, text: str) -> str:
    body = {
        "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], "contextId": CONTEXT},
    }
    return (await node.client.post("/api/v1/message:send", json=body, headers=A2A)).json()["task"]["id"]


async def page(node: NodeUnderTest, **query: str) -> dict[str, Any]:
    response = await node.client.get("/api/v1/tasks", params={"contextId": CONTEXT} | query, headers=A2A)
    assert response.status_code == 200, response.text
    return response.json()


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
        await node.store.command("ZADD", keys.context(CONTEXT), 1_800_000_000_000, task_id)
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
    await node.store.command("ZADD", keys.context(CONTEXT), 1, gone)
    assert [task["id"] for task in (await page(node))["tasks"]] == [kept]
    last = await say(node, "The last message")
    found = await page(node, pageSize="2")
    assert [task["id"] for task in found["tasks"]] == [last, kept]
    assert (found["totalSize"], found["nextPageToken"]) == (2, "")
