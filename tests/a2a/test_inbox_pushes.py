"""Push notifications for an inbox's tasks, from the config to the receiver, through Redis and a real worker (NETWORK
1).
"""

import asyncio
import json

import httpx2
import pytest

from node.a2a.inboxes.pushes import PUSH, PushSource
from node.callbacks.queue import Callback
from node.store import ids, keys
from tests.a2a.inbox_calls import answered, begun, configs_of, got, kinds, message, pushed_to, reason, rpc, sent
from tests.callbacks.receiver import Receiver
from tests.callbacks.test_callbacks import PUBLIC, hurry
from tests.inbox.calls import Json, closed, opened, path_of, read
from tests.support.node_under_test import PATIENCE, NodeUnderTest, until

SECRETS = {"token": "t0ken", "authentication": {"scheme": "Bearer", "credentials": "cr3dentials"}}
EXPIRED = 1  # ms since 1970


pytestmark = pytest.mark.settings(callback_allow_private=True)


@pytest.fixture(autouse=True)
def look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make workers look for due callbacks all the time, because tests change times in Redis directly."""
    monkeypatch.setattr("node.callbacks.queue.POLL_SECONDS", 0.2)
    monkeypatch.setattr("node.run.worker.PUSH_SWEEP_SECONDS", 0.1)


async def test_a_receiver_gets_the_events_of_a_stream_with_what_its_config_says(node: NodeUnderTest) -> None:
    async with asyncio.timeout(PATIENCE), Receiver(PUBLIC) as receiver, node.worker():
        inbox = await opened(node)
        config = {"url": receiver.url, "id": "c1"} | SECRETS
        response = await sent(node, inbox, message(), taskPushNotificationConfig=config)
        task = response.json()["task"]
        await receiver.until(1)
        await read(node, inbox)
        await receiver.until(2)
        await answered(node, inbox, reply="Sí.")
        await receiver.until(4)
        assert kinds(receiver) == ["task SUBMITTED", "statusUpdate WORKING", "artifactUpdate", "statusUpdate COMPLETED"]
        assert receiver.forged == 0
        assert len({webhook_id for webhook_id, _ in receiver.messages}) == 4
        for (_, event), headers in zip(receiver.messages, receiver.headers, strict=True):
            assert headers["x-a2a-notification-token"] == "t0ken"
            assert headers["authorization"] == "Bearer cr3dentials"
            assert headers["content-type"] == "application/json"
            [told] = event.values()
            assert (told.get("taskId") or told["id"], told["contextId"]) == (task["id"], task["contextId"])
            assert told["metadata"] == {"callbackHost": "127.0.0.1"}
        assert receiver.messages[2][1]["artifactUpdate"]["artifact"]["parts"][0]["text"] == "Sí."


async def test_a_task_that_goes_on_and_is_canceled_is_told(node: NodeUnderTest) -> None:
    async with asyncio.timeout(PATIENCE), Receiver(PUBLIC) as receiver, node.worker():
        inbox = await opened(node)
        task = await begun(node, inbox)
        await answered(node, inbox, status="input_required", reply="Which?")
        scheme_alone = {"authentication": {"scheme": "Bearer"}}
        assert (await pushed_to(node, inbox, task, url=receiver.url, **scheme_alone)).status_code == 200
        await receiver.until(1)
        assert "authorization" not in receiver.headers[0]
        await begun(node, inbox, message("That one", taskId=task["id"]))
        await receiver.until(2)
        await node.client.post(path_of(inbox, f"/a2a/tasks/{task['id']}:cancel"))
        await receiver.until(3)
        assert kinds(receiver) == ["task INPUT_REQUIRED", "statusUpdate SUBMITTED", "statusUpdate CANCELED"]


@pytest.mark.parametrize("is_closed", [False, True])
async def test_that_a_message_has_expired_or_lost_its_inbox_is_told(node: NodeUnderTest, is_closed: bool) -> None:
    async with asyncio.timeout(PATIENCE), Receiver(PUBLIC) as receiver, node.worker():
        inbox = await opened(node)
        task = await begun(node, inbox)
        await pushed_to(node, inbox, task, url=receiver.url)
        await receiver.until(1)
        if is_closed:
            await closed(node, inbox)
        else:
            ends = keys.inbox_push_ends(ids.partition_of(inbox["address"]))
            await node.store.command("HSET", keys.inbox_receipt(inbox["address"], task["id"]), "expires_at", EXPIRED)
            await node.store.command("ZADD", ends, EXPIRED, f"{inbox['address']} {task['id']}")
        await receiver.until(2)
        assert kinds(receiver) == ["task SUBMITTED", "statusUpdate FAILED"]


async def test_the_config_in_a_message_is_read_by_either_name_and_what_is_none_is_named(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    place = "configuration.taskPushNotificationConfig"
    for config, wrong in ((7, place), ("https://x.example/", place), ({"url": None}, f"{place}.url")):
        assert violation(await sent(node, inbox, message(), taskPushNotificationConfig=config)) == wrong
    named = {"taskPushNotificationConfig": None, "task_push_notification_config": {"url": "ftp://x.example/"}}
    assert violation(await sent(node, inbox, message(), **named)) == f"{place}.url"


async def test_a_receiver_that_was_deleted_or_wants_no_more_is_told_no_more(node: NodeUnderTest) -> None:
    async with asyncio.timeout(PATIENCE), Receiver(PUBLIC) as receiver, node.worker():
        receiver.answers["/gone"] = b"410 Gone"
        inbox = await opened(node)
        task = await begun(node, inbox)
        for name in ("kept", "gone", "deleted"):
            await pushed_to(node, inbox, task, url=receiver.url_at(f"/{name}"), id=name)
            await receiver.until(1, path=f"/{name}")
        for _ in range(2):
            assert (await node.client.delete(configs_of(inbox, task, "/deleted"))).json() == {}
        await answered(node, inbox)
        await receiver.until(2, path="/kept")
        assert {path: receiver.paths[path] for path in ("/gone", "/deleted")} == {"/gone": 1, "/deleted": 1}
        assert kinds(receiver).count("task SUBMITTED") == 2  # one to each receiver that accepts it
        listed = (await node.client.get(configs_of(inbox, task))).json()
        assert [each["id"] for each in listed["configs"]] == ["kept"]


def source_of(node: NodeUnderTest) -> PushSource:
    services = node.services()
    return PushSource(services.inbox_agents.view, services.pushes)


def callback_to(url: str, inbox: Json, task: Json, status: str = "queued", *, whole: bool = False) -> Callback:
    """Return the callback that a worker has to send to the config `c`."""
    data = {"inbox": inbox["address"], "inbox_task": task["id"], "message": task["id"], "status": status, "config": "c"}
    data |= {"whole": whole}
    partition = ids.partition_of(inbox["address"])
    return Callback(name="push", id="msg", url=url, type=PUSH, at=0, data=data, partition=partition, attempt=1)


async def test_a_change_that_is_told_late_is_told_as_it_was(node: NodeUnderTest) -> None:
    """The worker handles an event after the next one has happened, so the task already differs from what the event
    reports.
    """
    inbox, url = await opened(node), "https://agent.example.com/a2a"
    task = await begun(node, inbox)
    await pushed_to(node, inbox, task, url=url, id="c")
    await read(node, inbox)
    was = (await got(node, inbox, task))["status"]
    await answered(node, inbox, reply="No.", status="refused")
    prepared = await source_of(node).prepare(callback_to(url, inbox, task, "read"), "agent.example.com")
    assert prepared
    assert prepared.following is None
    assert json.loads(prepared.envelope.body)["statusUpdate"]["status"] == was
    assert was["state"] == "TASK_STATE_WORKING"


async def test_how_a_task_stood_when_a_receiver_came_is_told_as_it_was_then(node: NodeUnderTest) -> None:
    """What happened to the task since then is sent later: after its final state, a task must not appear to go on."""
    inbox, url = await opened(node), "https://agent.example.com/a2a"
    task = await begun(node, inbox)
    await pushed_to(node, inbox, task, url=url, id="c")
    await answered(node, inbox, status="input_required", reply="Which?")
    await begun(node, inbox, message("That one", taskId=task["id"]))
    await answered(node, inbox, reply="Yes.")
    prepared = await source_of(node).prepare(callback_to(url, inbox, task, "queued", whole=True), "agent.example.com")
    assert prepared
    assert prepared.following is None
    told = json.loads(prepared.envelope.body)["task"]
    assert (told["id"], told["status"], "artifacts" in told) == (task["id"], task["status"], False)


async def test_what_a_new_url_is_shown_is_not_sent_to_the_one_before(node: NodeUnderTest) -> None:
    """When a config is replaced, a push to the old URL may be under way, and its next attempt reads the new config."""
    inbox = await opened(node)
    task = await begun(node, inbox)
    old, new = "https://old.example.com/a2a", "https://new.example.com/a2a"
    await pushed_to(node, inbox, task, url=old, id="c")
    await pushed_to(node, inbox, task, url=new, id="c", **SECRETS)
    assert await source_of(node).prepare(callback_to(old, inbox, task), "old.example.com") is None
    prepared = await source_of(node).prepare(callback_to(new, inbox, task), "new.example.com")
    assert prepared
    assert (b"X-A2A-Notification-Token", b"t0ken") in prepared.envelope.shown


async def test_a_receiver_that_wants_no_more_takes_no_config_with_it_that_names_another(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    old, new = "https://old.example.com/a2a", "https://new.example.com/a2a"
    await pushed_to(node, inbox, task, url=new, id="c")
    for url, left in ((old, 1), (new, 0), (new, 0)):
        await source_of(node).forget(callback_to(url, inbox, task))
        assert len((await node.client.get(configs_of(inbox, task))).json()["configs"]) == left


async def test_a_config_that_takes_its_place_while_a_receiver_is_forgotten_stays(node: NodeUnderTest) -> None:
    pushes = node.services().pushes
    inbox = await opened(node)
    task = await begun(node, inbox)
    await pushed_to(node, inbox, task, url="https://old.example.com/a2a", id="c")
    forgotten = (await pushes.all(inbox["address"], task["id"]))["c"]
    await pushed_to(node, inbox, task, url="https://new.example.com/a2a", id="c")
    await pushes.forget(inbox["address"], task["id"], forgotten)
    assert [each.url for each in (await pushes.all(inbox["address"], task["id"])).values()] == [
        "https://new.example.com/a2a"
    ]


async def test_configs_are_bounded_replaced_and_show_no_secret(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    url = "https://hooks.example.com/a2a"
    for name in ("a", "b", "c", "d", "d"):
        made = await pushed_to(node, inbox, task, url=url, id=name, **SECRETS)
        assert made.json() == {"id": name, "taskId": task["id"], "url": url, "authentication": {"scheme": "Bearer"}}
        assert made.headers["ratelimit"].startswith('"inbox_send";')
    assert reason(await pushed_to(node, inbox, task, url=url)) == "UNSUPPORTED_OPERATION"
    goes_on = message("More", taskId=task["id"])
    await answered(node, inbox, status="input_required", reply="Which?")
    refused = await sent(node, inbox, goes_on, taskPushNotificationConfig={"url": url})
    assert reason(refused) == "UNSUPPORTED_OPERATION"
    assert (await read(node, inbox))["messages"] == []
    for response in (
        await node.client.get(configs_of(inbox, task)),
        await node.client.get(configs_of(inbox, task, "/a")),
    ):
        assert "t0ken" not in response.text
        assert "cr3dentials" not in response.text
    assert reason(await node.client.get(configs_of(inbox, task, "/e"))) == "TASK_NOT_FOUND"


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({}, "url"),
        ({"url": "ftp://hooks.example.com"}, "url"),
        ({"url": "https://hooks.example.com", "id": "a b"}, "id"),
        ({"url": "https://hooks.example.com", "token": "a\n"}, "token"),
        ({"url": "https://hooks.example.com", "authentication": {"scheme": "Bearer x"}}, "authentication.scheme"),
        (
            {
                "url": "https://hooks.example.com",
                "authentication": {"scheme": "Bearer", "credentials": "a\r\nX-Other: b"},
            },
            "authentication.credentials",
        ),
    ],
)
async def test_a_config_that_cannot_be_used_is_refused_before_anything_is_sent(
    node: NodeUnderTest, config: Json, field: str
) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    assert violation(await pushed_to(node, inbox, task, **config)) == field
    refused = await sent(node, inbox, message(), taskPushNotificationConfig=config)
    assert violation(refused) == f"configuration.taskPushNotificationConfig.{field}"
    assert len((await read(node, inbox))["messages"]) == 1


def violation(response: httpx2.Response) -> str:
    assert response.status_code == 400, response.text
    return response.json()["error"]["details"][1]["fieldViolations"][0]["field"]


async def test_json_rpc_has_the_same_operations_in_both_spellings(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    url = "https://hooks.example.com/a2a"
    made = await rpc(node, inbox, "CreateTaskPushNotificationConfig", {"taskId": task["id"], "url": url})
    assert made["result"] == {"id": task["id"], "taskId": task["id"], "url": url}
    for name in ("taskId", "task_id"):
        asked = {name: task["id"], "id": task["id"]}
        assert (await rpc(node, inbox, "GetTaskPushNotificationConfig", asked))["result"] == made["result"]
        listed = await rpc(node, inbox, "ListTaskPushNotificationConfigs", asked)
        assert listed["result"]["configs"] == [made["result"]]
    history = await rpc(node, inbox, "GetTask", {"id": task["id"], "history_length": 0})
    assert "history" not in history["result"]
    await rpc(node, inbox, "DeleteTaskPushNotificationConfig", asked)
    assert (await rpc(node, inbox, "GetTaskPushNotificationConfig", asked))["error"]["code"] == -32001
    assert (await rpc(node, inbox, "ListTaskPushNotificationConfigs", {"taskId": "none"}))["error"]["code"] == -32001


async def test_a_config_that_comes_with_a_message_may_take_the_place_of_one_without_a_name(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    for named in ({"id": "a"}, {"id": "b"}, {"id": "c"}, {}):
        assert (await pushed_to(node, inbox, task, url="https://hooks.example.com/a2a", **named)).status_code == 200
    await answered(node, inbox, status="input_required", reply="Which?")
    goes_on, other = message("More", taskId=task["id"]), "https://hooks.example.com/other"
    taken = await sent(node, inbox, goes_on, taskPushNotificationConfig={"url": other})
    assert taken.status_code == 200, taken.text
    configs = (await node.client.get(configs_of(inbox, task))).json()["configs"]
    assert [each["url"] for each in configs if each["id"] == task["id"]] == [other]
    assert len(configs) == 4


@pytest.mark.parametrize("unset", [{}, {"credentials": None}])
async def test_a_scheme_without_credentials_is_kept_and_shown(node: NodeUnderTest, unset: Json) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    config = {"url": "https://hooks.example.com/a2a", "authentication": {"scheme": "Bearer"}}
    await pushed_to(node, inbox, task, **config | {"authentication": {"scheme": "Bearer"} | unset})
    listed = (await node.client.get(configs_of(inbox, task))).json()
    assert listed["configs"] == [{"id": task["id"], "taskId": task["id"]} | config]


async def test_a_config_ends_with_its_task(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    await pushed_to(node, inbox, task, url="https://hooks.example.com/a2a")
    receipt, pushes = (of(inbox["address"], task["id"]) for of in (keys.inbox_receipt, keys.inbox_pushes))

    async def ends(key: str) -> object:
        return await node.store.command("PEXPIRETIME", key)

    assert await ends(pushes) == await ends(receipt)
    async with node.worker():
        await answered(node, inbox)

        async def together() -> bool:
            return await ends(pushes) == await ends(receipt)

        await until(together)


async def test_what_changes_while_a_receiver_fails_is_told_by_one(node: NodeUnderTest) -> None:
    async with asyncio.timeout(PATIENCE), Receiver(PUBLIC, lambda n: 500 if n == 0 else 204) as receiver, node.worker():
        inbox = await opened(node)
        task = await begun(node, inbox)
        await pushed_to(node, inbox, task, url=receiver.url, **SECRETS)
        await receiver.until(1)
        await answered(node, inbox, status="refused", reply="No.")
        callback = keys.callback(ids.partition_of(inbox["address"]), f"push:{task['id']}:{task['id']}")

        async def told_of_the_end() -> bool:
            data = await node.store.command("HGET", callback, "data")
            return isinstance(data, bytes) and b"refused" in data

        await until(told_of_the_end)
        noted = await node.store.command("HGETALL", callback)
        assert all(secret not in repr(noted) for secret in ("t0ken", "cr3dentials"))
        await hurry(node)
        await receiver.until(2)
        assert kinds(receiver) == ["statusUpdate REJECTED"]


async def test_a_reply_that_did_not_arrive_comes_again_before_the_end(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    async with asyncio.timeout(PATIENCE), Receiver(PUBLIC, lambda n: 503 if n == 1 else 204) as receiver:
        async with node.worker():
            await pushed_to(node, inbox, task, url=receiver.url)
            await receiver.until(1)
        await answered(node, inbox, reply="Sí.")
        async with node.worker():
            await receiver.until(2)  # the reply, which is refused
            callback = keys.callback(ids.partition_of(inbox["address"]), f"push:{task['id']}:{task['id']}")

            async def waits() -> bool:
                return await node.store.command("HGET", callback, "attempt") == b"1"

            await until(waits)
            await hurry(node)
            await receiver.until(4)
    assert kinds(receiver) == ["task SUBMITTED", "artifactUpdate", "statusUpdate COMPLETED"]
