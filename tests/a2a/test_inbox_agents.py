"""An inbox as an A2A agent over both bindings, on a real Redis (NETWORK 1)."""

import asyncio
from typing import Any

import msgspec
import pytest

from node.a2a.inboxes import service
from node.common.timestamps import milliseconds, timestamp
from node.store import keys
from node.store.clock import now_ms
from tests.a2a.inbox_calls import answered, begun, got, message, reason, rpc, sent
from tests.inbox.calls import ADDRESS, INBOXES, Json, bearer, opened, path_of, read, send_signed, settled, signed
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import RedisServer

CARD = {
    "name": "Report desk",
    "description": "Summarises reports.",
    "skills": [{"id": "sum", "name": "Summarise", "description": "Makes long short.", "tags": ["text"]}],
}


async def test_an_inbox_answers_a_blocking_message(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    assert inbox["a2a_url"] == f"{inbox['url']}/a2a"
    asking = asyncio.ensure_future(sent(node, inbox, message(contextId="c1"), returnImmediately=False))
    held = await answered(node, inbox, reply="Todo bien.")
    assert (held["body"], held["thread"]) == ("Hola, ¿qué tal?", "c1")
    task = (await asking).json()["task"]
    assert (task["id"], task["contextId"]) == (held["id"], "c1")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"][0]["text"] == "Todo bien."
    assert [turn["messageId"] for turn in task["history"]] == ["m1"]
    assert reason(await sent(node, inbox, message(taskId=task["id"]))) == "UNSUPPORTED_OPERATION"


async def test_a_message_that_may_not_wait_is_sent_and_answered_at_once(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refusing instead would make the sender repeat a message that the owner already has."""
    monkeypatch.setattr("node.web.waiting_places.MAX_WAITING_PER_CLIENT", 0)
    inbox = await opened(node)
    response = await sent(node, inbox, message(), returnImmediately=False)
    assert (response.status_code, response.json()["task"]["status"]["state"]) == (200, "TASK_STATE_SUBMITTED")
    assert len((await read(node, inbox))["messages"]) == 1


async def test_a_task_says_how_far_its_message_is(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    assert task["status"]["state"] == "TASK_STATE_SUBMITTED"
    [held] = (await read(node, inbox))["messages"]
    assert (await got(node, inbox, task))["status"]["state"] == "TASK_STATE_WORKING"
    await settled(node, inbox, held, status="refused", reply="Not mine.")
    status = (await got(node, inbox, task))["status"]
    assert status["state"] == "TASK_STATE_REJECTED"
    assert status["message"]["parts"][0]["text"] == "Not mine."
    assert (status["message"]["taskId"], status["message"]["contextId"]) == (task["id"], task["contextId"])


async def test_an_encrypted_answer_is_handed_on_as_it_came(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    await answered(node, inbox, reply_ciphertext="b25seSBmb3IgeW91")
    [artifact] = (await got(node, inbox, task))["artifacts"]
    assert artifact["parts"] == [{"raw": "b25seSBmb3IgeW91", "mediaType": "application/octet-stream"}]
    path = path_of(inbox, f"/messages/{task['id']}")
    receipt = (await node.client.get(path, headers=bearer(inbox["inbox_token"]))).json()
    assert (receipt["reply_ciphertext"], receipt["reply"]) == ("b25seSBmb3IgeW91", None)


async def test_a_task_whose_message_expires_has_failed(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    await node.store.command("HSET", keys.inbox_receipt(inbox["address"], task["id"]), "expires_at", 1)
    assert (await got(node, inbox, task))["status"]["state"] == "TASK_STATE_FAILED"
    assert reason(await node.client.post(path_of(inbox, f"/a2a/tasks/{task['id']}:cancel"))) == "TASK_NOT_CANCELABLE"


async def test_push_notifications_go_to_public_places_only(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    for url in ("http://127.0.0.1:8080/push", "http://node.example/push", "https://hooks.example.com:22/push"):
        refused = await sent(node, inbox, message(), taskPushNotificationConfig={"url": url})
        assert (refused.status_code, reason(refused)) == (400, "INVALID_PARAMS")
    assert (await read(node, inbox))["messages"] == []


async def test_an_answer_goes_on_with_the_task_once(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    first = await answered(node, inbox, status="input_required", reply="Which year?")
    asked = await got(node, inbox, task)
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    answers = await asyncio.gather(*[sent(node, inbox, message(f"{year}", taskId=task["id"])) for year in (1999, 2001)])
    # One of two concurrent answers must not get 409.
    assert sorted(answer.status_code for answer in answers) == [200, 400]
    second = await answered(node, inbox, reply="Done.")
    assert (second["in_reply_to"], second["thread"]) == (first["id"], first["thread"])
    done = await got(node, inbox, task)
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [turn["role"] for turn in done["history"]] == ["ROLE_USER", "ROLE_AGENT", "ROLE_USER"]


@pytest.mark.parametrize("asks", [False, True])
async def test_a_canceled_task_is_taken_back(node: NodeUnderTest, asks: bool) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    if asks:
        await answered(node, inbox, status="input_required", reply="Which?")
    cancel = path_of(inbox, f"/a2a/tasks/{task['id']}:cancel")
    for _ in range(2):
        assert (await node.client.post(cancel)).json()["status"]["state"] == "TASK_STATE_CANCELED"
    assert (await read(node, inbox))["messages"] == []
    done = await begun(node, inbox)
    await answered(node, inbox)
    assert reason(await node.client.post(path_of(inbox, f"/a2a/tasks/{done['id']}:cancel"))) == "TASK_NOT_CANCELABLE"


async def test_a_context_lists_its_tasks_to_who_knows_it(node: NodeUnderTest) -> None:
    inbox, other = await opened(node), await opened(node)
    first = await begun(node, inbox)
    context = first["contextId"]
    second = await begun(node, inbox, message(contextId=context))

    async def listed(where: Json, **query: Any) -> Json:
        return (await node.client.get(path_of(where, "/a2a/tasks"), params=query)).json()

    page = await listed(inbox, contextId=context, pageSize=1)
    assert ([each["id"] for each in page["tasks"]], page["totalSize"]) == ([second["id"]], 2)
    page = await listed(inbox, contextId=context, pageToken=page["nextPageToken"])
    assert [each["id"] for each in page["tasks"]] == [first["id"]]
    shown = [await listed(inbox, contextId=context, includeArtifacts=asked) for asked in ("true", "false")]
    assert [page["tasks"][0].get("artifacts") for page in shown] == [[], None]
    assert (await listed(inbox))["totalSize"] == (await listed(other, contextId=context))["totalSize"] == 0
    assert (await listed(inbox, contextId=context, status="TASK_STATE_SUBMITTED"))["totalSize"] == 2
    changed = milliseconds(second["status"]["timestamp"])
    since = [(await listed(inbox, contextId=context, statusTimestampAfter=timestamp(changed + ms))) for ms in (0, 1)]
    assert [second["id"] in [each["id"] for each in page["tasks"]] for page in since] == [True, False]
    assert since[1]["totalSize"] == 0


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("tasks?status=submitted", "status"),
        ("tasks?pageSize=0", "pageSize"),
        ("tasks?pageSize=many", "pageSize"),
        ("tasks?pageToken=x", "pageToken"),
        ("tasks?historyLength=-1", "historyLength"),
        ("tasks?statusTimestampAfter=today", "statusTimestampAfter"),
        ("tasks/x?historyLength=-1", "historyLength"),
        ("tasks/x?%FF=", "query"),
    ],
)
async def test_a_wrong_query_is_an_invalid_argument(node: NodeUnderTest, path: str, field: str) -> None:
    """The 422 of SPEC 4.2 applies only to the node's own agent, whose paths are shared with other clients."""
    response = await node.client.get(path_of(await opened(node), f"/a2a/{path}"))
    said = response.json()
    assert (response.status_code, list(said)) == (400, ["error"])
    assert (said["error"]["code"], said["error"]["status"], reason(response)) == (
        400,
        "INVALID_ARGUMENT",
        "INVALID_PARAMS",
    )
    assert [each["field"] for each in said["error"]["details"][1]["fieldViolations"]] == [field]


async def later(node: NodeUnderTest) -> None:
    """Return in a later millisecond, because changes within one millisecond have no order."""
    now = await now_ms(node.store)
    while await now_ms(node.store) == now:
        pass


async def test_a_list_begins_with_the_task_that_changed_last(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    tasks: list[Json] = []
    for _ in range(4):
        tasks.append(await begun(node, inbox, message(contextId="c")))
        await later(node)

    async def listed(token: str = "") -> tuple[list[str], str]:
        query = {"contextId": "c", "pageSize": 2, "pageToken": token}
        page = (await node.client.get(path_of(inbox, "/a2a/tasks"), params=query)).json()
        assert page["totalSize"] == 4
        times = [each["status"]["timestamp"] for each in page["tasks"]]
        assert times == sorted(times, reverse=True)
        return [each["id"] for each in page["tasks"]], page["nextPageToken"]

    ids = [task["id"] for task in tasks]
    await settled(node, inbox, tasks[0])
    first, token = await listed()
    assert first == [ids[0], ids[3]]
    await later(node)
    await settled(node, inbox, tasks[3])  # moves to the front; no other task is shown twice or left out
    second, end = await listed(token)
    assert (second, end) == ([ids[2], ids[1]], "")
    assert (await listed())[0] == [ids[3], ids[0]]
    for wrong in ("x", ids[0], f".{ids[0]}", f"1.{ids[0]}x", f"{'9' * 400}.{ids[0]}"):
        query = {"contextId": "c", "pageToken": wrong}
        response = await node.client.get(path_of(inbox, "/a2a/tasks"), params=query)
        assert response.status_code == 400
        assert response.json()["error"]["details"][1]["fieldViolations"][0]["field"] == "pageToken"


async def test_what_an_inbox_held_when_it_was_closed_ended_at_one_time(node: NodeUnderTest) -> None:
    """The tasks of a closed inbox keep one end time. If each read reported them as failed just now, a list could not be
    paged.
    """
    inbox = (await send_signed(node, signed("POST", INBOXES, {}))).json()
    task = await begun(node, inbox)
    assert (await send_signed(node, signed("DELETE", path_of(inbox)))).is_success
    failed = (await got(node, inbox, task))["status"]
    assert failed["state"] == "TASK_STATE_FAILED"
    receipt = keys.inbox_receipt(ADDRESS, task["id"])
    ended = await node.store.command("HINCRBY", receipt, "ended_at", -1)  # as if a moment had passed since
    assert ended == milliseconds(failed["timestamp"]) - 1
    for opens in (False, True):
        if opens:
            assert (await send_signed(node, signed("POST", INBOXES, {}))).is_success
        assert milliseconds((await got(node, inbox, task))["status"]["timestamp"]) == ended


async def test_a_question_stays_when_its_task_is_canceled(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    await answered(node, inbox, status="input_required", reply="Which year?")
    canceled = (await node.client.post(path_of(inbox, f"/a2a/tasks/{task['id']}:cancel"))).json()
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    assert [turn["parts"][0]["text"] for turn in canceled["history"]] == ["Hola, ¿qué tal?", "Which year?"]


async def test_an_artifact_of_a_reply_is_named_by_where_its_content_is(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    artifact = "01a1fbff-0e2a-731a-b384-c61ba6127768"
    await answered(node, inbox, artifact_ids=[artifact])
    [part] = (await got(node, inbox, task))["artifacts"][0]["parts"]
    assert part == {"url": f"http://node.example/api/v1/artifacts/{artifact}/content"}


async def test_what_a_list_does_not_show_is_not_read(node: NodeUnderTest, empty_redis: RedisServer) -> None:
    inbox, size = await opened(node), 10_000
    task = await begun(node, inbox, message("word " * (size // 5)))
    about = message("word " * (size // 5), contextId=task["contextId"])
    for _ in range(8):
        await answered(node, inbox, status="input_required", reply="what? " * (size // 6))
        task = await begun(node, inbox, about | {"taskId": task["id"]})

    def sent_by_redis() -> int:
        return empty_redis.info("stats")["total_net_output_bytes"]

    async def read_for(path: str, **query: Any) -> int:
        asking, before = sent_by_redis(), sent_by_redis()  # the INFO command's own answer counts, too
        assert (await node.client.get(path_of(inbox, path), params=query)).status_code == 200
        return sent_by_redis() - before - (before - asking)

    listing = {"contextId": task["contextId"], "historyLength": 0}
    everything = await read_for(f"/a2a/tasks/{task['id']}")
    assert everything > 15 * size
    assert await read_for("/a2a/tasks", **listing, pageSize=1) < 5 * size
    assert await read_for("/a2a/tasks", **listing, status="TASK_STATE_COMPLETED") < size
    assert await read_for(f"/a2a/tasks/{task['id']}", historyLength=1) < 5 * size


@pytest.mark.usefixtures("no_refill")
@pytest.mark.settings(client_throughput=64 * 1024)  # bytes a second, 1 MiB at once
async def test_who_lists_tasks_is_charged_for_those_that_are_looked_at(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LOOK_BYTES", 240 * 1024)
    inbox = await opened(node)
    context = (await begun(node, inbox))["contextId"]
    await begun(node, inbox, message(contextId=context))
    query: Json = {"contextId": context, "status": "TASK_STATE_FAILED", "pageSize": 1}
    statuses = [(await node.client.get(path_of(inbox, "/a2a/tasks"), params=query)).status_code for _ in range(4)]
    assert statuses == [200, 200, 200, 429]
    other = node.client_at("203.0.113.8")
    call = {"jsonrpc": "2.0", "id": 7, "method": "ListTasks", "params": query}
    statuses = [(await other.post(path_of(inbox, "/a2a"), json=call)).status_code for _ in range(4)]
    assert statuses[-1] == 429
    await other.aclose()


async def test_a_page_of_long_tasks_is_a_short_one(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "PAGE_BYTES", 100)
    inbox = await opened(node)
    tasks = [await begun(node, inbox)]
    tasks += [await begun(node, inbox, message(contextId=tasks[0]["contextId"])) for _ in range(2)]
    query, found = {"contextId": tasks[0]["contextId"]}, list[str]()
    while query.get("pageToken") != "":
        page = (await node.client.get(path_of(inbox, "/a2a/tasks"), params=query)).json()
        assert (len(page["tasks"]), page["totalSize"]) == (1, 3)
        found.append(page["tasks"][0]["id"])
        query["pageToken"] = page["nextPageToken"]
    assert found == [task["id"] for task in reversed(tasks)]


async def test_a_subscriber_is_told_of_every_change_until_the_end(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    following = asyncio.ensure_future(
        node.client.post(path_of(inbox, "/a2a/message:stream"), json={"message": message()})
    )
    held = await answered(node, inbox, reply="Yes.")
    response = await following
    assert response.headers["content-type"] == "text/event-stream"
    lines = response.text.splitlines()
    seen = [msgspec.json.decode(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert seen[0]["task"]["id"] == held["id"]
    assert seen[-2]["artifactUpdate"]["artifact"]["parts"][0]["text"] == "Yes."
    assert seen[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    subscribe = path_of(inbox, f"/a2a/tasks/{held['id']}:subscribe")
    assert reason(await node.client.post(subscribe)) == "UNSUPPORTED_OPERATION"


async def test_json_rpc_calls_do_the_same(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    params = {"message": message(), "configuration": {"returnImmediately": True}}
    task = (await rpc(node, inbox, "SendMessage", params))["result"]["task"]
    assert (await rpc(node, inbox, "GetTask", {"id": task["id"]}))["result"] == task
    asked = {"context_id": task["contextId"], "page_size": 5, "status": "TASK_STATE_SUBMITTED", "history_length": 0}
    [listed] = (await rpc(node, inbox, "ListTasks", asked))["result"]["tasks"]
    assert listed == {name: value for name, value in task.items() if name != "history"}
    proto: Json = {
        "message": {"message_id": "m2", "role": "ROLE_USER", "parts": [{"text": "x", "media_type": "text/plain"}]}
    }
    proto["configuration"] = {"return_immediately": True, "history_length": 0}
    assert "history" not in (await rpc(node, inbox, "SendMessage", proto))["result"]["task"]
    assert (await rpc(node, inbox, "CancelTask", {"id": task["id"]}))["result"]["status"]["state"].endswith("CANCELED")
    for method, given, code in (
        ("GetTask", {"id": "none"}, -32001),
        ("CreateTaskPushNotificationConfig", {}, -32602),
        ("SubscribeToTask", {"id": task["id"]}, -32004),
        ("NoSuchMethod", {}, -32601),
        ("SendMessage", {}, -32602),
    ):
        assert (await rpc(node, inbox, method, given))["error"]["code"] == code, method


async def test_the_card_says_what_its_owner_gave(node: NodeUnderTest) -> None:
    inbox = await opened(node, card=CARD | {"version": "9"})
    answer = await node.client.get(path_of(inbox, "/a2a/.well-known/agent-card.json"))
    assert answer.headers["last-modified"].endswith(" GMT")
    card = answer.json()
    assert {name: card[name] for name in CARD} == CARD
    assert {each["url"] for each in card["supportedInterfaces"]} == {inbox["a2a_url"]}
    assert card["capabilities"] == {"streaming": True, "pushNotifications": True, "extendedAgentCard": False}
    response = await node.client.post("/api/v1/inboxes", json={"card": CARD | {"description": "x" * 17_000}})
    assert response.status_code == 422


async def test_a_card_says_nothing_between_the_lines(node: NodeUnderTest) -> None:
    said = "Makes\x1b[2J long\u202e short."
    skill = {"id": "sum", "name": "Sum", "description": said, "tags": ["text"], "examples": [said]}
    for hidden in ("\u200b", "sum\x00", "sum\x1b[2J", "sum\n"):
        refused = await node.client.post(INBOXES, json={"card": CARD | {"skills": [skill | {"id": hidden}]}})
        assert (refused.status_code, refused.json()["detail"][0]["loc"]) == (422, ["body", "card"])
    inbox = await opened(node, card=CARD | {"description": said, "skills": [skill]})
    card = (await node.client.get(path_of(inbox, "/a2a/.well-known/agent-card.json"))).json()
    [shown] = card["skills"]
    texts = [card["description"], shown["description"], *shown["examples"]]
    assert texts == ["Makes long short."] * 3


async def test_who_has_the_card_is_told_that_it_has_not_changed(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    path = path_of(inbox, "/a2a/.well-known/agent-card.json")
    first = await node.client.get(path)
    tag = {"if-none-match": first.headers["etag"]}
    again = await node.client.get(path, headers=tag)
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["last-modified"] == first.headers["last-modified"]
    since = {"if-modified-since": first.headers["last-modified"]}
    assert (await node.client.get(path, headers=since)).status_code == 304
    before = {"if-unmodified-since": "Sun, 06 Nov 1994 08:49:37 GMT"}
    assert (await node.client.get(path, headers=before)).headers["x-error-code"] == "content.other"
    await node.client.post(INBOXES, json={"label": "Other"}, headers=bearer(inbox["inbox_token"]))
    assert (await node.client.get(path, headers=tag)).json()["name"] == "Other"


async def test_clients_of_json_rpc_may_put_a_slash_behind_the_base(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    call = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "none"}}
    response = await node.client.post(path_of(inbox, "/a2a/"), json=call)
    assert response.json()["error"]["code"] == -32001


async def test_the_receipt_of_a_plain_message_is_no_task(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    plain = (await node.client.post(path_of(inbox, "/messages"), json={"body": "x"})).json()
    assert reason(await node.client.get(path_of(inbox, f"/a2a/tasks/{plain['id']}"))) == "TASK_NOT_FOUND"
