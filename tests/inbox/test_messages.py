"""Messages of inboxes over HTTP, on a real Redis: sent, read, settled, withdrawn (NETWORK 1)."""

import asyncio
from base64 import b64encode
from typing import Any

import pytest

from node.store import keys
from tests.inbox.calls import (
    ADDRESS,
    INBOXES,
    Json,
    bearer,
    closed,
    members,
    opened,
    path_of,
    read,
    receipt,
    sent,
    settled,
)
from tests.support.answers import refused
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import WOKEN

CIPHERTEXT = b64encode(b"only for you").decode()
SOME_ID = "019a8f5e-7c1d-7a3b-9c52-4e1f6d2b8a07"
SECRET_KEY = "an-idempotency-key-of-32-characters"


async def test_a_message_is_held_until_it_is_settled(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    response = await node.client.post(path_of(inbox, "/messages"), json={"body": "Hello", "subject": "Greeting"})
    assert response.status_code == 201
    message = response.json()
    assert (message["seq"], message["status"]) == (1, "queued")
    assert response.headers["location"] == message["receipt_url"]
    assert response.headers["cache-control"] == "no-store"
    for _ in range(2):  # reading removes nothing
        page = await read(node, inbox)
        assert [(each["id"], each["body"], each["subject"]) for each in page["messages"]] == [
            (message["id"], "Hello", "Greeting")
        ]
        assert (page["waiting"], page["next_since_seq"], page["epoch"]) == (1, 1, inbox["epoch"])
        assert page["oldest_at"] == page["messages"][0]["sent_at"]
        assert page["bytes"] > 0
    assert (await settled(node, inbox, message)).json()["status"] == "done"
    empty = await read(node, inbox)
    assert (empty["messages"], empty["waiting"], empty["bytes"], empty["oldest_at"]) == ([], 0, 0, None)


async def test_an_owner_gets_all_that_a_sender_writes(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    whole = {
        "ciphertext": CIPHERTEXT,
        "subject": "For you",
        "author": "planner",
        "reply_to": ADDRESS,
        "in_reply_to": SOME_ID,
        "thread": "matter 7",
        "artifact_ids": [SOME_ID],
    }
    await node.client.post(path_of(inbox, "/messages"), json=whole)
    (message,) = (await read(node, inbox))["messages"]
    assert {name: message[name] for name in whole} == whole
    assert (message["body"], message["signer"], message["reply_to_proven"]) == (None, None, False)


async def test_numbers_have_no_gaps_and_a_page_begins_after_since_seq(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    messages = [await sent(node, inbox, body=f"number {n}") for n in range(1, 6)]
    assert [message["seq"] for message in messages] == [1, 2, 3, 4, 5]
    await settled(node, inbox, messages[1])
    page = await read(node, inbox, since_seq=1, limit=2)
    assert [each["seq"] for each in page["messages"]] == [3, 4]
    assert (page["next_since_seq"], page["waiting"]) == (4, 4)
    last = await read(node, inbox, since_seq=5)
    assert (last["messages"], last["next_since_seq"]) == ([], 5)
    assert (await read(node, inbox, since_seq=99))["next_since_seq"] == 5
    assert (await sent(node, inbox))["seq"] == 6


@pytest.mark.parametrize("lost", ["text", "id"])
async def test_a_message_that_cannot_be_read_keeps_no_other_from_its_owner(node: NodeUnderTest, lost: str) -> None:
    inbox = await opened(node)
    for number in range(3):
        await sent(node, inbox, body=f"Message {number}")
    stream = keys.inbox_messages(inbox["address"])
    found: Any = await node.store.command("XRANGE", stream, "-", "+")
    ends: Any = await node.store.command("PEXPIRETIME", stream)
    await node.store.command("DEL", stream)
    for place, (entry, fields) in enumerate(found):
        if place != 1:
            named = fields.index(lost.encode())
            fields[named : named + 2] = [b"new-" + lost.encode(), b"?"]
        await node.store.command("XADD", stream, entry, *fields)
    await node.store.command("PEXPIREAT", stream, ends)
    page = await read(node, inbox)
    assert ([each["body"] for each in page["messages"]], page["next_since_seq"]) == (["Message 1"], 3)
    assert (await read(node, inbox, since_seq=3))["messages"] == []
    query = {"topic": f"inbox:{inbox['address']}", "cursor": "earliest", "limit": 2}
    events = (await node.client.get("/api/v1/events", params=query, headers=bearer(inbox["inbox_token"]))).json()
    assert ([each["data"]["seq"] for each in events["events"]], events["has_more"]) == ([2], True)


async def test_concurrent_senders_get_every_number_once(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    clients = [node.client_at(f"203.0.113.{n}") for n in range(1, 6)]
    messages = await asyncio.gather(*(sent(node, inbox, clients[n % 5]) for n in range(50)))
    assert sorted(message["seq"] for message in messages) == list(range(1, 51))


async def test_all_that_is_wrong_with_a_message_is_told_at_once(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    wrong = {"body": " ", "subject": "two\nlines", "author": "\u0410dmin", "thread": "a\tb"}
    response = await node.client.post(path_of(inbox, "/messages"), json=wrong)
    assert response.status_code == 422
    assert {issue["loc"][1] for issue in response.json()["detail"]} == {"body", "subject", "author", "thread"}


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"body": ""},
        {"body": " \n"},
        {"body": "x" * 16_385},
        {"body": "\u00e9" * 8193},
        {"body": "x", "ciphertext": CIPHERTEXT},
        {"ciphertext": "not base64!"},
        {"ciphertext": "A" * 24_580},
        {"body": "x", "subject": "x" * 201},
        {"body": "x", "subject": "two\nlines"},
        {"body": "x", "author": "x" * 201},
        {"body": "x", "thread": "x" * 101},
        {"body": "x", "reply_to": "nobody"},
        {"body": "x", "in_reply_to": "nothing"},
        {"body": "x", "artifact_ids": [SOME_ID] * 11},
        {"body": "x", "artifact_ids": ["nothing"]},
        {"body": "x", "expires_in": 29},
        {"body": "x", "expires_in": 2_592_001},
    ],
)
async def test_a_message_that_is_wrong_is_refused_with_422(node: NodeUnderTest, wrong: Json) -> None:
    inbox = await opened(node)
    response = await node.client.post(path_of(inbox, "/messages"), json=wrong)
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"][0] == "body"
    assert (await sent(node, inbox))["seq"] == 1


async def test_the_largest_message_is_taken(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    await sent(node, inbox, body="x" * 16_384)
    await node.client.post(path_of(inbox, "/messages"), json={"ciphertext": "A" * 24_576})
    page = await read(node, inbox)
    assert [len(each["body"] or each["ciphertext"]) for each in page["messages"]] == [16_384, 24_576]


async def test_a_body_in_any_language_is_taken(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    body = "Bitte fassen Sie den Bericht zusammen."
    await sent(node, inbox, body=body)
    assert [each["body"] for each in (await read(node, inbox))["messages"]] == [
        "Bitte fassen Sie den Bericht zusammen."
    ]


async def test_a_waiting_owner_gets_the_message_when_it_is_sent(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    waiting = asyncio.create_task(read(node, inbox, wait=30))
    await node.listened_to(keys.inbox(inbox["address"]))
    assert not waiting.done()
    await sent(node, inbox, body="News")
    assert [each["body"] for each in (await asyncio.wait_for(waiting, WOKEN))["messages"]] == ["News"]


async def test_a_waiting_owner_learns_that_the_inbox_was_closed(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    path = path_of(inbox, "/messages")
    waiting = asyncio.create_task(node.client.get(path, params={"wait": 30}, headers=bearer(inbox["inbox_token"])))
    await node.listened_to(keys.inbox(inbox["address"]))
    await closed(node, inbox)
    assert refused(await asyncio.wait_for(waiting, WOKEN)) == (404, "inbox.unknown")


async def test_a_sender_sees_how_far_its_message_is(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    message = await sent(node, inbox)
    queued = await receipt(node, inbox, message)
    assert (queued["status"], queued["read_at"], queued["settled_at"]) == ("queued", None, None)
    waiting = asyncio.create_task(receipt(node, inbox, message, wait=30))
    await node.listened_to(keys.inbox_receipt(inbox["address"], message["id"]))
    await read(node, inbox)
    seen = await asyncio.wait_for(waiting, WOKEN)
    assert seen["status"] == "read"
    assert seen["read_at"] >= seen["sent_at"] == queued["sent_at"]
    assert (await receipt(node, inbox, message, wait=20, status="queued"))["status"] == "read"
    waiting = asyncio.create_task(receipt(node, inbox, message, wait=30))
    await settled(node, inbox, message, reply="Yes", artifact_ids=[SOME_ID])
    done = await asyncio.wait_for(waiting, WOKEN)
    assert (done["status"], done["reply"], done["artifact_ids"]) == ("done", "Yes", [SOME_ID])
    assert await asyncio.wait_for(receipt(node, inbox, message, wait=30), WOKEN) == done  # at once when it is settled


async def test_the_owner_reads_receipts_too(node: NodeUnderTest) -> None:
    inbox, other = await opened(node), await opened(node)
    message = await sent(node, inbox)
    path = path_of(inbox, f"/messages/{message['id']}")
    answers = {
        name: await node.client.get(path, headers=bearer(token) if token else {})
        for name, token in {"owner": inbox["inbox_token"], "none": "", "other": other["inbox_token"]}.items()
    }
    assert answers["owner"].json() == await receipt(node, inbox, message)
    assert refused(answers["none"]) == (401, "inbox.proof")
    assert refused(answers["other"]) == (403, "inbox.token")
    assert answers["owner"].headers["cache-control"] == "no-store"
    another = await sent(node, inbox)
    foreign = await node.client.get(path, headers=bearer(another["receipt_token"]))
    assert refused(foreign) == (403, "inbox.token")
    unknown = await node.client.get(path_of(inbox, f"/messages/{SOME_ID}"), headers=bearer(inbox["inbox_token"]))
    assert refused(unknown) == (404, "receipt.unknown")


@pytest.mark.parametrize("status", ["done", "refused", "input_required"])
async def test_settling_twice_gets_the_same_answer_and_otherwise_409(node: NodeUnderTest, status: str) -> None:
    inbox = await opened(node)
    message = await sent(node, inbox)
    first = await settled(node, inbox, message, status=status, reply="So be it")
    again = await settled(node, inbox, message, status=status, reply="So be it")
    assert first.json() == {"id": message["id"], "seq": 1, "status": status, "settled_at": first.json()["settled_at"]}
    assert (again.status_code, again.json()) == (200, first.json())
    others: list[Json] = [{"status": status}, {"status": status, "reply": "Other"}]
    others.append({"status": "refused" if status == "done" else "done", "reply": "So be it"})
    for other in others:
        assert refused(await settled(node, inbox, message, **other)) == (409, "inbox.settled")
    assert (await receipt(node, inbox, message))["status"] == status


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "read"},
        {"reply": "x" * 16_385},
        {"reply": "é" * 8_193},
        {"reply": "x", "reply_ciphertext": CIPHERTEXT},
        {"reply_ciphertext": "?"},
        {"artifact_ids": ["x"]},
    ],
)
async def test_a_settlement_that_is_wrong_is_refused_with_422(node: NodeUnderTest, wrong: Any) -> None:
    inbox = await opened(node)
    message = await sent(node, inbox)
    assert (await settled(node, inbox, message, **wrong)).status_code == 422
    assert (await receipt(node, inbox, message))["status"] == "queued"


async def test_settling_through_a_number_ends_all_up_to_it(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    messages = [await sent(node, inbox) for _ in range(4)]
    await settled(node, inbox, messages[0], status="refused")
    path, headers = path_of(inbox, "/settle"), bearer(inbox["inbox_token"])
    for count in (2, 0):  # when repeated, nothing is left to settle
        response = await node.client.post(path, json={"through_seq": 3}, headers=headers)
        assert response.json() == {"through_seq": 3, "settled": count}
    statuses = [(await receipt(node, inbox, message))["status"] for message in messages]
    assert statuses == ["refused", "done", "done", "queued"]
    assert [each["seq"] for each in (await read(node, inbox))["messages"]] == [4]
    assert refused(await node.client.post(path, json={"through_seq": 4})) == (401, "inbox.proof")


async def test_a_sender_takes_a_message_back(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    message, other = await sent(node, inbox), await sent(node, inbox)
    path = path_of(inbox, f"/messages/{message['id']}")
    assert refused(await node.client.delete(path)) == (401, "inbox.proof")
    for token in (inbox["inbox_token"], other["receipt_token"]):
        assert refused(await node.client.delete(path, headers=bearer(token))) == (403, "receipt.token")
    first, again = [await node.client.delete(path, headers=bearer(message["receipt_token"])) for _ in range(2)]
    assert first.json()["status"] == "withdrawn"
    assert (again.status_code, again.json()) == (200, first.json())
    assert [each["id"] for each in (await read(node, inbox))["messages"]] == [other["id"]]
    assert (await receipt(node, inbox, message))["status"] == "withdrawn"
    assert refused(await settled(node, inbox, message)) == (404, "receipt.unknown")
    asked = await sent(node, inbox)
    for late, status in ((other, "done"), (asked, "input_required")):  # leads nowhere: the message is of no task
        await settled(node, inbox, late, status=status)
        path = path_of(inbox, f"/messages/{late['id']}")
        assert refused(await node.client.delete(path, headers=bearer(late["receipt_token"]))) == (409, "inbox.settled")


async def test_a_call_gets_the_owners_answer_in_one_request(node: NodeUnderTest) -> None:
    inbox = await opened(node)

    async def owner() -> None:
        (message,) = (await read(node, inbox, wait=20))["messages"]
        assert (await settled(node, inbox, message, reply=f"{message['body']} yourself")).is_success

    answering = asyncio.create_task(owner())
    path = path_of(inbox, "/messages")
    response = await node.client.post(path, params={"wait": 20}, json={"body": "Hello"})
    await answering
    answer = response.json()
    assert response.status_code == 201
    assert (answer["status"], answer["reply"]) == ("done", "Hello yourself")
    assert answer["receipt_token"]
    assert answer["settled_at"]


async def test_a_call_that_is_not_answered_in_time_tells_how_far_it_is(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    sending: Any = {"params": {"wait": 0.1}, "json": {"body": "Hello"}, "headers": {"idempotency-key": SECRET_KEY}}
    assert (await node.client.post(path_of(inbox, "/messages"), **sending)).json()["status"] == "queued"
    await read(node, inbox)
    assert (await node.client.post(path_of(inbox, "/messages"), **sending)).json()["status"] == "read"


async def test_a_call_that_is_repeated_with_its_key_waits_for_the_same_message(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    path, headers = path_of(inbox, "/messages"), {"idempotency-key": SECRET_KEY}
    first = (await node.client.post(path, json={"body": "Hello"}, headers=headers)).json()
    calling = asyncio.create_task(node.client.post(path, params={"wait": 30}, json={"body": "Hello"}, headers=headers))
    await node.listened_to(keys.inbox_receipt(inbox["address"], first["id"]))
    await settled(node, inbox, first, reply="Yes")
    again = await asyncio.wait_for(calling, WOKEN)
    assert again.headers["idempotency-replayed"] == "true"
    assert (again.json()["id"], again.json()["reply"]) == (first["id"], "Yes")


async def test_a_message_that_is_repeated_with_its_key_is_sent_once(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    path, headers = path_of(inbox, "/messages"), {"idempotency-key": SECRET_KEY}
    first, again = [await node.client.post(path, json={"body": "Hello"}, headers=headers) for _ in range(2)]
    assert (again.status_code, again.json()) == (201, first.json())
    assert (await read(node, inbox))["waiting"] == 1
    other = await node.client.post(path, json={"body": "Other"}, headers=headers)
    assert refused(other) == (422, "idempotency.conflict")


async def test_a_key_that_renewed_an_inbox_still_sends_to_it_and_the_other_way_round(node: NodeUnderTest) -> None:
    """The same body is both a renewal without changes and a message."""
    for sends_first in (True, False):
        inbox = await opened(node)
        keyed = {"idempotency-key": SECRET_KEY}
        sending = (path_of(inbox, "/messages"), keyed, 201)
        renewing = (INBOXES, bearer(inbox["inbox_token"]) | keyed, 200)
        for path, headers, status in (sending, renewing) if sends_first else (renewing, sending):
            answer = await node.client.post(path, json={"body": "Hello"}, headers=headers)
            assert (answer.status_code, "idempotency-replayed" in answer.headers) == (status, False)
        assert (await read(node, inbox))["waiting"] == 1


async def test_a_short_key_gives_the_token_of_a_message_again_for_a_minute_only(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    path, headers = path_of(inbox, "/messages"), {"idempotency-key": "k" * 15}
    first, again = [await node.client.post(path, json={"body": "Hello"}, headers=headers) for _ in range(2)]
    assert again.json() == first.json()
    (record,) = await node.names("idem:*")
    kept = await node.store.command("GET", record)
    assert isinstance(kept, bytes)
    said, _, at = kept.decode().rpartition("@")
    await node.store.command("SET", record, f"{said}@{int(at) - 61_000}", "KEEPTTL")
    late = await node.client.post(path, json={"body": "Hello"}, headers=headers)
    assert refused(late) == (422, "idempotency.short")
    assert (await read(node, inbox))["waiting"] == 1


async def test_an_expired_message_is_held_no_more_and_its_sender_knows(node: NodeUnderTest) -> None:
    inbox = await opened(node, ttl_seconds=60)
    message = await sent(node, inbox, expires_in=2_592_000)
    assert message["expires_at"] < inbox["expires_at"]
    # As if a minute had passed.
    [(place, _)] = await members(node, keys.inbox_ends(inbox["address"]))
    await node.store.command("ZADD", keys.inbox_ends(inbox["address"]), 1, place)
    await node.store.command("HSET", keys.inbox_receipt(inbox["address"], message["id"]), "expires_at", 1)
    page = await read(node, inbox)
    assert (page["messages"], page["waiting"], page["bytes"], page["oldest_at"]) == ([], 0, 0, None)
    ended = await receipt(node, inbox, message, wait=20)
    assert (ended["status"], ended["settled_at"]) == ("expired", None)
    assert refused(await settled(node, inbox, message)) == (409, "inbox.settled")
    path = path_of(inbox, f"/messages/{message['id']}")
    assert refused(await node.client.delete(path, headers=bearer(message["receipt_token"]))) == (409, "inbox.settled")
    assert (await sent(node, inbox))["seq"] == 2
    assert await node.store.command("XLEN", keys.inbox_messages(inbox["address"])) == 1


async def test_a_receipt_lives_a_week_after_its_message_was_settled(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    message = await sent(node, inbox, expires_in=30)
    key = keys.inbox_receipt(inbox["address"], message["id"])
    week = 7 * 86_400_000
    left = await node.store.command("PTTL", key)
    assert isinstance(left, int)
    assert week < left <= week + 30_000
    await settled(node, inbox, message)
    left = await node.store.command("PTTL", key)
    assert isinstance(left, int)
    assert week - 10_000 < left <= week
