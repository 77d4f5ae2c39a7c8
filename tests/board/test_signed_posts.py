"""Signed posts over HTTP: a signed post is kept once, as it was signed, and anyone can verify it."""

import asyncio
from typing import Any, cast

import msgspec
import pytest

from node.board.store import BoardStore
from node.sign.proof import Proof, verify_proof
from node.sign.request import REPLAY_SECONDS
from node.store import keys
from node.store.clock import now_ms
from node.web.waiting_places import WAITING_BY_CLIENT
from tests.board.signed_posts import BOARD, OFFER, OTHER_KEY, QUESTION, TASKS, send, signed
from tests.sign.signing import KEY, PUBLIC
from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import WOKEN, eventually


def proven(record: dict[str, Any], *names: str) -> None:
    """Check that the record says who signed it, and that the signature covers the fields shown."""
    assert record["is_signed"] is True
    found = verify_proof(msgspec.convert(record["signature"], Proof))
    assert found.key == PUBLIC
    assert found.content is not None
    assert {name: record[name] for name in names} == {name: found.content[name] for name in names}


async def test_a_signed_thread_can_be_verified_from_its_record(node: NodeUnderTest) -> None:
    response = await send(node, signed(BOARD, QUESTION))
    assert response.status_code == 201, response.text
    proven(response.json(), *QUESTION)
    stored = (await node.client.get(f"{BOARD}/threads/{response.json()['id']}")).json()
    assert stored["signature"] == response.json()["signature"]
    proven(stored, *QUESTION)
    proven((await node.client.get(BOARD)).json()["threads"][0], *QUESTION)


async def test_a_signed_reply_can_be_verified_from_its_record(node: NodeUnderTest) -> None:
    thread = (await node.client.post(BOARD, json=QUESTION)).json()
    response = await send(node, signed(f"{BOARD}/{thread['id']}/replies", {"body": "I can help you"}))
    assert response.status_code == 201, response.text
    proven(response.json(), "body")
    (stored,) = (await node.client.get(f"{BOARD}/{thread['id']}")).json()["replies"]
    assert stored == response.json()
    assert thread["is_signed"] is False


async def test_a_signed_offer_can_be_verified_and_is_bound_to_its_key(node: NodeUnderTest) -> None:
    task = json_of(await send(node, signed(TASKS, OFFER)), 201)
    assert task["require_proof"] is True
    stored = (await node.client.get(f"{TASKS}/{task['id']}")).json()
    proven(stored, *OFFER)
    cancel = f"{TASKS}/{task['id']}/cancel"
    assert (await send(node, signed(cancel, {}, OTHER_KEY))).headers["x-error-code"] == "task.publisher"
    assert (await send(node, signed(cancel, {}))).json()["status"] == "canceled"


@pytest.mark.parametrize("header", ["signature", "content-digest", "signature-key", "signature-input"])
async def test_a_signature_that_was_tampered_with_is_refused(node: NodeUnderTest, header: str) -> None:
    request = signed(BOARD, QUESTION)
    other = signed(BOARD, QUESTION | {"author": "tsv"}, OTHER_KEY)
    response = await send(node, request.with_header(header, other.headers[header]))
    assert (response.status_code, response.headers["x-error-code"]) == (400, "signature.invalid")
    assert response.headers["signature-error"].startswith("error=")
    assert (await node.client.get(BOARD)).json()["total"] == 0


async def test_a_signature_that_is_meant_for_somebody_else_makes_no_signed_thread(node: NodeUnderTest) -> None:
    request = signed(BOARD, QUESTION)
    request.headers["signature-input"] += ';tag="web-bot-auth"'
    assert json_of(await send(node, request), 201)["is_signed"] is False


async def test_a_signed_body_that_was_exchanged_is_refused(node: NodeUnderTest) -> None:
    request = signed(BOARD, QUESTION)
    request.body = request.body.replace(b"CSV", b"TSV")
    assert (await send(node, request)).headers["signature-error"].startswith("error=")


@pytest.mark.parametrize("key", ["", "key-2"], ids=["without a key", "with another key"])
async def test_a_signature_is_good_for_one_thread(node: NodeUnderTest, key: str) -> None:
    request = signed(BOARD, QUESTION)
    first = await send(node, request, **({"idempotency_key": "key-1"} if key else {}))
    assert first.status_code == 201
    again = await send(node, request, **({"idempotency_key": key} if key else {}))
    assert (again.status_code, again.headers["x-error-code"]) == (409, "signature.replayed")
    assert again.headers["signature-error"] == "error=invalid_signature"
    assert "has been used already" in again.json()["error"]
    assert (await node.client.get(BOARD)).json()["total"] == 1


@pytest.mark.parametrize("key", [{}, {"idempotency_key": "key-1"}], ids=["without a key", "with a key"])
async def test_a_used_signature_is_remembered_for_as_long_as_it_would_be_accepted(
    node: NodeUnderTest, key: dict[str, str]
) -> None:
    began = await now_ms(node.store)
    assert (await send(node, signed(BOARD, QUESTION), **key)).status_code == 201
    ends = [await node.store.command("PEXPIRETIME", record) for record in await node.names("replay:*")]
    assert ends
    assert min(cast("list[int]", ends)) >= began + REPLAY_SECONDS * 1000


async def test_a_signature_is_good_for_one_thread_from_whatever_addresses_it_is_sent(node: NodeUnderTest) -> None:
    request = signed(BOARD, QUESTION)
    sent = [
        await node.client_at(f"203.0.113.{number}").post(BOARD, content=request.body, headers=dict(request.headers))
        for number in range(8)
    ]
    assert [each.status_code for each in sent] == [201] + 7 * [409]


@pytest.mark.settings(client_threads=1)
async def test_a_signature_that_there_was_no_room_for_is_good_later(node: NodeUnderTest) -> None:
    assert (await node.client.post(BOARD, json=QUESTION)).status_code == 201
    request = signed(BOARD, QUESTION)
    assert (await send(node, request)).headers["x-error-code"] == "quota.board"
    (places,) = await node.names("held:*")
    await node.store.command("DEL", places)
    assert (await send(node, request)).status_code == 201


@pytest.mark.parametrize("first_key", ["", "key-1"])
async def test_a_signature_that_was_used_without_a_key_is_not_good_with_one(
    node: NodeUnderTest, first_key: str
) -> None:
    request = signed(BOARD, QUESTION)
    either = [{"idempotency_key": "key-1"}, {}] if first_key else [{}, {"idempotency_key": "key-1"}]
    statuses = [(await send(node, request, **headers)).status_code for headers in either]
    assert statuses == [201, 409]


async def test_a_signature_is_good_for_one_reply(node: NodeUnderTest) -> None:
    thread = (await node.client.post(BOARD, json=QUESTION)).json()
    request = signed(f"{BOARD}/{thread['id']}/replies", {"body": "I can help you"})
    assert (await send(node, request)).status_code == 201
    again = await send(node, request)
    assert (again.status_code, again.headers["x-error-code"]) == (409, "signature.replayed")


@pytest.mark.parametrize("path", [BOARD, TASKS, "replies"])
async def test_a_signed_request_that_is_retried_with_its_key_gets_its_answer(node: NodeUnderTest, path: str) -> None:
    body: dict[str, str] = {BOARD: QUESTION, TASKS: OFFER}.get(path, {"body": "I can help you"})
    if path == "replies":
        path = f"{BOARD}/{(await node.client.post(BOARD, json=QUESTION)).json()['id']}/replies"
    request = signed(path, body)
    first = await send(node, request, idempotency_key="key-1")
    again = await send(node, request, idempotency_key="key-1")
    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["idempotency-replayed"] == "true"


@pytest.mark.parametrize("path", [BOARD, TASKS, "replies"])
async def test_a_retry_that_was_signed_anew_gets_the_answer_with_the_first_signature(
    node: NodeUnderTest, path: str
) -> None:
    body: dict[str, str] = {BOARD: QUESTION, TASKS: OFFER}.get(path, {"body": "I can help you"})
    if path == "replies":
        path = f"{BOARD}/{(await node.client.post(BOARD, json=QUESTION)).json()['id']}/replies"
    first = await send(node, signed(path, body), idempotency_key="key-1")
    again = await send(node, signed(path, body), idempotency_key="key-1")
    unsigned = await node.client.post(
        path, content=signed(path, body).body, headers={"content-type": "application/json", "idempotency-key": "key-1"}
    )
    assert again.json() == unsigned.json() == first.json()


async def test_a_signed_thread_is_closed_by_its_key_only(node: NodeUnderTest) -> None:
    thread = (await send(node, signed(BOARD, QUESTION))).json()
    close = f"{BOARD}/{thread['id']}/close"
    for refused in (await node.client.post(close), await send(node, signed(close, key=OTHER_KEY))):
        assert (refused.status_code, refused.headers["x-error-code"]) == (403, "thread.signer")
    assert (await node.client.get(f"{BOARD}/{thread['id']}")).json()["status"] == "open"
    response = await send(node, signed(close))
    assert (response.status_code, response.json()["status"]) == (200, "closed")
    assert await node.store.command("ZCARD", keys.OPEN_THREADS) == 0  # at once, without a worker


async def test_a_thread_that_there_is_not_is_not_closed(node: NodeUnderTest) -> None:
    for thread in ("nonsense", "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"):
        response = await send(node, signed(f"{BOARD}/{thread}/close"))
        assert (response.status_code, response.headers["x-error-code"]) == (404, "thread.unknown")


async def test_a_close_whose_answer_was_lost_is_repeated_as_it_was_signed(node: NodeUnderTest) -> None:
    thread = (await send(node, signed(BOARD, QUESTION))).json()
    close = signed(f"{BOARD}/{thread['id']}/close")
    first, again = await send(node, close), await send(node, close)
    assert (again.status_code, again.json()) == (200, first.json())


async def test_a_thread_that_was_opened_again_is_not_closed_by_its_old_signature(node: NodeUnderTest) -> None:
    thread = (await send(node, signed(BOARD, QUESTION))).json()
    close = signed(f"{BOARD}/{thread['id']}/close")
    assert (await send(node, close)).status_code == 200
    shown = (await node.client.get(f"{BOARD}/{thread['id']}")).json()
    assert shown["created_at"] <= shown["closed_at"]
    await BoardStore(node.store, 60).close(thread["id"], "open")
    assert "closed_at" not in (await node.client.get(f"{BOARD}/{thread['id']}")).json()
    again = await send(node, close)
    assert (again.status_code, again.headers["x-error-code"]) == (409, "signature.replayed")
    assert (await send(node, signed(f"{BOARD}/{thread['id']}/close"))).status_code == 200


async def test_a_hidden_thread_is_unknown_to_the_key_that_signed_it_and_to_others(node: NodeUnderTest) -> None:
    thread = (await send(node, signed(BOARD, QUESTION))).json()
    await node.store.command("HSET", keys.thread(thread["id"]), "status", "hidden")
    for key in (KEY, OTHER_KEY):
        response = await send(node, signed(f"{BOARD}/{thread['id']}/close", key=key))
        assert (response.status_code, response.headers["x-error-code"]) == (404, "thread.unknown")


async def test_a_reader_who_waits_is_told_that_a_thread_was_closed(node: NodeUnderTest) -> None:
    thread = (await send(node, signed(BOARD, QUESTION))).json()
    path = f"{BOARD}/threads/{thread['id']}"
    waiting = asyncio.create_task(node.client.get(path, params={"wait": 30}, timeout=40))

    await eventually(lambda: bool(WAITING_BY_CLIENT))
    await send(node, signed(f"{BOARD}/{thread['id']}/close", {}))
    assert (await asyncio.wait_for(waiting, WOKEN)).json()["status"] == "closed"
    # No reply can follow, so no request waits for one.
    assert (await asyncio.wait_for(node.client.get(path, params={"wait": 30}), WOKEN)).json()["status"] == "closed"
