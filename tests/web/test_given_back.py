"""A client is charged only for what the node keeps: refused and repeated requests cost none of its bytes of the day."""

import json
from hashlib import sha256
from time import time_ns
from typing import Any, NoReturn, cast

import pytest

from node.a2a.inboxes.pushes import PushConfigService
from node.inbox.model import MAX_PUSH_CONFIGS
from node.share.cost import COSTS, Kind
from node.store.errors import StoreUnavailable
from node.tasks.model import ClaimedTask
from node.tasks.offers.claim_next import INTENT_BYTES
from node.tasks.service import Tasks
from node.web.http import ASGIMessage
from node.web.usage import Usage
from node.web.waiting_places import WAITING_BY_CLIENT
from tests.a2a.inbox_calls import answered, begun, message, pushed_to, reason
from tests.a2a.inbox_calls import sent as sent_over_a2a
from tests.agents.calls import card_of
from tests.inbox.calls import UNKNOWN_ADDRESS, bearer, opened, path_of, read, sent
from tests.sign.signing import content_digest
from tests.support.http_scope import HOST, http_scope
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import eventually
from tests.tasks.calls import claimed, offered
from tests.tasks.calls import read as task_read

TOTAL = 200_000
MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello there"}]}
SHA256 = sha256(b"a").hexdigest()
DIGEST = {"content-digest": content_digest(b"a")}
UNKNOWN = "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"


pytestmark = pytest.mark.settings(client_bytes=TOTAL)


Charges = list[tuple[Kind | None, int]]
"""Bytes charged, with their kinds, and bytes given back."""


@pytest.fixture
def charges(monkeypatch: pytest.MonkeyPatch) -> Charges:
    """A list of what this process charges to all clients from now on."""
    noted: Charges = []
    add, give_back = Usage.add, Usage.give_back

    async def adding(usage: Usage, client: str, kind: Kind, size: int) -> int:
        used = await add(usage, client, kind, size)
        noted.append((kind, used))
        return used

    def giving_back(usage: Usage, client: str, used: int) -> None:
        noted.append((None, -used))
        give_back(usage, client, used)

    monkeypatch.setattr(Usage, "add", adding)
    monkeypatch.setattr(Usage, "give_back", giving_back)
    return noted


SPANISH = "Hola, necesito ayuda con este documento tan largo"
CLAIM = f"1.{'0' * 32}.{'A' * 43}"
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("/api/v1/relay", {"message": SPANISH}),
    ("/api/v1/relay", {"message": SPANISH, "public": False}),
    ("/api/v1/wire/stream", {"message": SPANISH}),
    ("/api/v1/board", {"title": "Help", "body": SPANISH}),
    (f"/api/v1/board/{UNKNOWN}/replies", {"body": "I can do that for you."}),
    (f"/api/v1/board/{UNKNOWN}/report", {"reason": "spam"}),
    ("/api/v1/sessions", {"label": "two\nlines"}),
    (f"/api/v1/sessions/{UNKNOWN}/messages", {"body": "a line"}),
    ("/api/v1/tasks", {"publisher_id": "p", "title": "two\nlines"}),
    (f"/api/v1/tasks/{UNKNOWN}/claim", {"assignee_id": "ann"}),
    (f"/api/v1/tasks/{UNKNOWN}/transition", {"actor_id": "ann"}),
    (f"/api/v1/tasks/{UNKNOWN}/complete", {"claim_token": CLAIM}),
    (f"/api/v1/tasks/{UNKNOWN}/fail", {"claim_token": CLAIM, "code": "tired"}),
    (f"/api/v1/tasks/{UNKNOWN}/reject", {"publisher_token": "A" * 43, "reason": "Half of it is missing."}),
    ("/api/v1/message:send", {"message": MESSAGE | {"parts": [{"text": SPANISH}]}}),
    ("/api/v1/a2a/tasks", {"message": MESSAGE | {"parts": [{"text": SPANISH}]}}),
    ("/api/v1/inboxes", {"card": card_of(), "callback_url": "http://127.0.0.1/"}),
    (f"/api/v1/inboxes/{UNKNOWN_ADDRESS}/messages", {"body": "a message"}),
    (f"/api/v1/inboxes/{UNKNOWN_ADDRESS}/messages/{UNKNOWN}/settle", {"status": "done"}),
    (f"/api/v1/inboxes/{UNKNOWN_ADDRESS}/a2a/message:send", {"message": MESSAGE}),
    (f"/api/v1/inboxes/{UNKNOWN_ADDRESS}/a2a/tasks/{UNKNOWN}/pushNotificationConfigs", {"url": "https://8.8.8.8/"}),
    ("/api/v1/agents", {"card": card_of(SPANISH)}),
    ("/api/v1/feedback", {"feedback_text": SPANISH}),
]


async def test_what_is_refused_leaves_nothing_to_pay(node: NodeUnderTest, charges: Charges) -> None:
    token = bearer((await opened(node))["inbox_token"])
    charges.clear()
    for path, body in REFUSED:
        refused = await node.client.post(path, json=body, headers=token)
        assert 400 <= refused.status_code < 500, (path, refused.text)
        assert sum(used for _, used in charges) == 0, path
    was_charged = {kind for kind, _ in charges if kind}
    assert was_charged == set(COSTS) - {"artifact", "stream"}, "of each kind, some are refused after they were charged"


async def test_a_conflict_and_a_report_over_the_limit_leave_nothing_to_pay(
    node: NodeUnderTest, charges: Charges
) -> None:
    manifest = {
        "publisher_id": "p",
        "media_type": "text/plain",
        "byte_size": 1,
        "digest_sha256": sha256(b"a").hexdigest(),
    }
    key = {"idempotency-key": "a key that nobody guesses"}
    assert (await node.client.post("/api/v1/artifacts", json=manifest, headers=key | DIGEST)).status_code == 201
    report = {"feedback_text": "The search finds my threads quickly."}
    assert (await node.client.post("/api/v1/feedback", json=report)).status_code == 200
    paid = sum(used for _, used in charges)
    conflict = await node.client.post("/api/v1/artifacts", json=manifest | {"n": 1}, headers=key | DIGEST)
    assert conflict.headers["x-error-code"] == "idempotency.conflict"
    assert (await node.client.post("/api/v1/feedback", json=report)).status_code == 429
    assert sum(used for _, used in charges) == paid


async def test_who_was_too_late_pays_for_the_record_that_its_key_has_left(
    node: NodeUnderTest, charges: Charges, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise anybody could make the node keep such records for nothing: a record names the contract that was about
    to be claimed.
    """
    contract, _ = await offered(node), await offered(node)
    charges.clear()
    claim_as = Tasks.claim_as

    async def after_another(tasks: Tasks, task_id: str, assignee: str, *request: Any) -> tuple[ClaimedTask, bool]:
        await claim_as(tasks, task_id, "other-agent", "0" * 32, None)
        return await claim_as(tasks, task_id, assignee, *request)

    monkeypatch.setattr(Tasks, "claim_as", after_another)
    before = await node.names("idem:*")
    late = {"assignee_id": "ann", "idempotency_key": "a key that nobody guesses"}
    answer = await node.client.post("/api/v1/tasks/claim-next", json=late)
    left = set(await node.names("idem:*")) - set(before)
    assert (answer.status_code, len(left)) == (204, 1)
    record = left.pop()
    size = cast("int", await node.store.command("MEMORY", "USAGE", record, key=record))
    assert size <= sum(used for _, used in charges) == INTENT_BYTES
    assert (await task_read(node, contract))["assignee_id"] == "other-agent"


async def test_who_was_told_to_come_again_pays_for_the_record_that_its_key_has_left(
    node: NodeUnderTest, charges: Charges, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(*_: object) -> NoReturn:
        raise StoreUnavailable("the server of the contract has no primary")

    await offered(node)
    charges.clear()
    claim = {"assignee_id": "ann", "idempotency_key": "a key that nobody guesses"}
    with monkeypatch.context() as patch:
        patch.setattr(Tasks, "claim_as", unavailable)
        failed = await node.client.post("/api/v1/tasks/claim-next", json=claim)
    assert (failed.status_code, sum(used for _, used in charges)) == (503, INTENT_BYTES)


async def test_a_claim_of_nothing_and_an_end_told_twice_are_not_paid(node: NodeUnderTest, charges: Charges) -> None:
    nothing = await node.client.post("/api/v1/tasks/claim-next", json={"assignee_id": "ann"})
    assert (nothing.status_code, sum(used for _, used in charges)) == (204, 0)
    inbox = await opened(node)
    message = await sent(node, inbox)
    done, failed = await claimed(node), await claimed(node)
    ends = [
        (f"/api/v1/tasks/{done['id']}/complete", {"claim_token": done["claim_token"], "result_payload": {"apples": 7}}),
        (f"/api/v1/tasks/{failed['id']}/fail", {"claim_token": failed["claim_token"], "code": "tired"}),
        (f"/api/v1/inboxes/{inbox['address']}/messages/{message['id']}/settle", {"status": "done", "reply": "Yes"}),
    ]
    for path, body in ends:
        before = sum(used for _, used in charges)
        first = await node.client.post(path, json=body, headers=bearer(inbox["inbox_token"]))
        paid = sum(used for _, used in charges)
        assert paid > before, path
        # In the same millisecond, the node cannot tell that the end was an earlier one.
        ended_at = time_ns() // 1_000_000
        await eventually(lambda ended_at=ended_at: time_ns() // 1_000_000 > ended_at)
        again = await node.client.post(path, json=body, headers=bearer(inbox["inbox_token"]))
        assert (first.status_code, again.status_code, again.json()) == (200, 200, first.json())
        assert sum(used for _, used in charges) == paid, path


async def test_a_worker_that_hangs_up_while_it_waits_pays_nothing(node: NodeUnderTest, charges: Charges) -> None:
    body = b'{"assignee_id":"ann","wait":30}'
    messages: list[ASGIMessage] = [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]

    async def receive() -> ASGIMessage:
        if len(messages) == 1:
            await eventually(lambda: WAITING_BY_CLIENT.total() == 1)
        return messages.pop(0)

    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await node.app(http_scope("POST", "/api/v1/tasks/claim-next", HOST, *headers), receive, no_answer)
    assert [kind for kind, _ in charges] == ["claim", None]
    assert sum(used for _, used in charges) == 0


async def no_answer(message: ASGIMessage) -> None:
    """Fail: nobody is there to get an answer."""
    pytest.fail(f"{message} was sent to nobody")


async def test_who_reports_a_post_again_pays_for_one_report(node: NodeUnderTest, charges: Charges) -> None:
    thread = (await node.client.post("/api/v1/board", json={"title": "Help", "body": "Who can read this?"})).json()
    paid: list[int] = []
    for _ in range(2):
        charges.clear()
        reported = await node.client.post(f"/api/v1/board/{thread['id']}/report", json={"reason": "It is spam."})
        assert reported.status_code == 202, reported.text
        paid.append(sum(used for _, used in charges))
    assert paid[0] > paid[1] == 0


async def test_an_inbox_that_was_opened_with_its_card_before_is_paid_once(
    node: NodeUnderTest, charges: Charges
) -> None:
    paid: list[int] = []
    for _ in range(2):
        key = {"idempotency-key": "a key that nobody guesses"}
        response = await node.client.post("/api/v1/inboxes", json={"card": card_of()}, headers=key)
        assert response.status_code == 201, response.text
        paid.append(sum(used for _, used in charges))
    assert paid[0] == paid[1] > 0


async def test_what_is_repeated_is_paid_once(node: NodeUnderTest) -> None:
    message = {"message": "Please read this long report about solar panels. " * 1500, "public": False}
    key = {"idempotency-key": "a key that nobody guesses"}
    for number in range(5):
        response = await node.client.post("/api/v1/relay", json=message, headers=key)
        assert (response.status_code, "idempotency-replayed" in response.headers) == (200, number > 0)
    other = await node.client.post("/api/v1/relay", json=message | {"n": 2})
    assert other.status_code == 200


async def test_a_step_that_is_repeated_is_paid_once(node: NodeUnderTest) -> None:
    task = await claimed(node)
    move = {"actor_id": "summary-agent", "claim_token": task["claim_token"], "unknown": "x" * (TOTAL // 3)}
    for number in range(5):
        key = {"idempotency-key": "a key that nobody guesses"}
        response = await node.client.post(f"/api/v1/tasks/{task['id']}/transition", json=move, headers=key)
        assert (response.status_code, "idempotency-replayed" in response.headers) == (200, number > 0), response.text
    assert (await node.client.post("/api/v1/sessions", json={})).status_code == 201


async def test_what_is_silenced_as_a_loop_costs_nothing(node: NodeUnderTest) -> None:
    message = {"message": "Please read this long report about solar panels. " * 1000, "public": False}
    answers = [await node.client.post("/api/v1/relay", json=message) for _ in range(6)]
    assert [(answer.status_code, bool(answer.content)) for answer in answers] == 2 * [(200, True)] + 4 * [(200, False)]
    assert (await node.client.post("/api/v1/relay", json={"message": "Who can read?", "n": "x" * 50_000})).text


@pytest.mark.parametrize(
    ("path", "kept"), [("/api/v1/message:send", 1), ("/a2a/message:send", 2)], ids=["the node's agent", "an inbox"]
)
async def test_a_message_over_a2a_is_charged_as_often_as_it_is_kept(
    node: NodeUnderTest, charges: Charges, path: str, kept: int
) -> None:
    """A message to an inbox is kept twice: for its owner, and in the history of its task."""
    inbox = await opened(node)
    body = json.dumps({"message": MESSAGE, "configuration": {"returnImmediately": True}}).encode()
    charges.clear()
    where = path if path.startswith("/api") else path_of(inbox, path)
    sending = await node.client.post(where, content=body, headers={"content-type": "application/json"})
    assert sending.status_code == 200, sending.text
    assert charges == [("message", COSTS["message"].of(kept * len(body)))]


async def test_a_message_is_paid_whose_receiver_found_its_place_taken_meanwhile(
    node: NodeUnderTest, charges: Charges, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox, url = await opened(node), "https://8.8.8.8/"
    task = await begun(node, inbox)
    await answered(node, inbox, status="input_required", reply="Which?")
    require_room = PushConfigService.require_room

    async def requiring(*call: Any) -> None:
        await require_room(*call)
        for number in range(MAX_PUSH_CONFIGS):
            assert (await pushed_to(node, inbox, task, url=url, id=f"c{number}")).status_code == 200
        charges.clear()

    monkeypatch.setattr(PushConfigService, "require_room", requiring)
    goes_on = message("That one", taskId=task["id"])
    assert (
        reason(await sent_over_a2a(node, inbox, goes_on, taskPushNotificationConfig={"url": url}))
        == "UNSUPPORTED_OPERATION"
    )
    assert len((await read(node, inbox))["messages"]) == 1, "the message is sent"
    assert [kind for kind, _ in charges] == ["message"]
