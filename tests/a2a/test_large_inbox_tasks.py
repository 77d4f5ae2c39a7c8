"""The parts of an inbox's task that an answer omits are not fetched: the messages of a task may take 2.5 MB."""

import pytest

from node.a2a.inboxes.calls import READ_BYTES
from node.web.throughput import BURST_SECONDS
from tests.a2a.inbox_calls import answered, begun, configs_of, got, message, pushed_to, reason, rpc
from tests.inbox.calls import Json, opened, path_of
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import RedisServer
from tests.tasks.test_large_results import Meter

pytestmark = pytest.mark.settings(callback_allow_private=True)

TEXT = "Résumé of a long report. " * 600  # 15 kB
SMALL, LARGE = 20_000, 150_000


async def long_task(node: NodeUnderTest) -> tuple[Json, Json]:
    """Return an inbox and a finished task of six long messages, each with an equally long answer."""
    inbox = await opened(node)
    task = await begun(node, inbox, message(TEXT))
    for _ in range(5):
        await answered(node, inbox, status="input_required", reply=TEXT)
        await begun(node, inbox, message(TEXT, taskId=task["id"]))
    return inbox, task


async def test_who_asks_about_push_notifications_or_is_refused_does_not_fetch_a_task(
    node: NodeUnderTest, empty_redis: RedisServer
) -> None:
    inbox, task = await long_task(node)
    pushed = await pushed_to(node, inbox, task, url="http://127.0.0.1:9/push", id="c1")
    assert pushed.status_code == 200
    meter = Meter(empty_redis)
    listed = await node.client.get(configs_of(inbox, task))
    assert ([each["id"] for each in listed.json()["configs"]], meter.moved < SMALL) == (["c1"], True)
    config = await node.client.get(configs_of(inbox, task, "/c2"))
    assert (reason(config), meter.moved < SMALL) == ("TASK_NOT_FOUND", True)
    again = await pushed_to(node, inbox, task, url="http://127.0.0.1:9/push", id="c2")
    assert (again.status_code, meter.moved < SMALL) == (200, True)
    for _ in range(2):
        gone = await node.client.delete(configs_of(inbox, task, "/c1"))
        assert (gone.status_code, meter.moved < SMALL) == (200, True)
    await answered(node, inbox, reply=TEXT)
    assert meter.moved
    cancel = await node.client.post(path_of(inbox, f"/a2a/tasks/{task['id']}:cancel"))
    assert (reason(cancel), meter.moved < SMALL) == ("TASK_NOT_CANCELABLE", True)
    followed = await node.client.get(path_of(inbox, f"/a2a/tasks/{task['id']}:subscribe"))
    assert (reason(followed), meter.moved < SMALL) == ("UNSUPPORTED_OPERATION", True)
    called = await rpc(node, inbox, "ListTaskPushNotificationConfigs", {"taskId": task["id"]})
    assert ([each["id"] for each in called["result"]["configs"]], meter.moved < SMALL) == (["c2"], True)
    assert len((await got(node, inbox, task))["history"]) == 11
    assert meter.moved > LARGE


@pytest.mark.usefixtures("no_refill")
@pytest.mark.settings(client_throughput=8 * READ_BYTES)
@pytest.mark.parametrize("by_rpc", [False, True])
async def test_who_asks_for_a_task_without_history_counts_for_what_is_read(node: NodeUnderTest, by_rpc: bool) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    path, codes = path_of(inbox, "/a2a"), set[str]()
    call = {"jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": {"id": task["id"], "historyLength": 0}}
    for _ in range(int(8 * BURST_SECONDS) + 2):
        if by_rpc:
            response = await node.client.post(path, json=call)
        else:
            response = await node.client.get(f"{path}/tasks/{task['id']}", params={"historyLength": 0})
        codes.add(response.headers.get("x-error-code", ""))
    assert codes == {"", "limit.throughput"}


async def test_the_id_of_a_later_message_names_no_task(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    await answered(node, inbox, status="input_required", reply="Which?")
    await begun(node, inbox, message("That one", taskId=task["id"]))
    later = await answered(node, inbox)
    assert reason(await node.client.get(configs_of(inbox, later))) == "TASK_NOT_FOUND"
    assert reason(await node.client.post(path_of(inbox, f"/a2a/tasks/{later['id']}:cancel"))) == "TASK_NOT_FOUND"
