"""Scratchpad sessions over HTTP, on a real Redis (SPEC 4.5)."""

import asyncio
from datetime import datetime
from typing import Any

import pytest

from node.config import Limit, Limits
from node.store import ids, keys
from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import WOKEN

SESSIONS = "/api/v1/sessions"


async def opened(node: NodeUnderTest, **wanted: Any) -> dict[str, Any]:
    """Open a session, and return it."""
    return json_of(await node.client.post(SESSIONS, json=wanted), 201)


def messages(session: dict[str, Any]) -> str:
    return f"{SESSIONS}/{session['session_id']}/messages"


async def test_a_session_is_opened_with_the_defaults(node: NodeUnderTest) -> None:
    response = await node.client.post(SESSIONS)
    assert response.status_code == 201
    session = response.json()
    assert session["ttl_seconds"] == 900
    assert len(session["destroy_token"]) >= 40
    assert response.headers["location"] == session["url"] == f"http://node.example{messages(session)}"
    left = await node.store.command("PTTL", keys.session(session["session_id"]))
    assert isinstance(left, int)
    assert 890_000 < left <= 900_000


async def test_the_time_to_live_is_the_callers(node: NodeUnderTest) -> None:
    session = await opened(node, ttl_seconds=60, label="planning")
    assert session["label"] == "planning"
    (place,) = await node.names("held:*203.0.113.7")
    for key in (keys.session(session["session_id"]), place):
        left = await node.store.command("PTTL", key)
        assert isinstance(left, int)
        assert 50_000 < left <= 60_000


async def test_null_stands_for_the_default_time_to_live(node: NodeUnderTest) -> None:
    response = await node.client.post(SESSIONS, json={"ttl_seconds": None, "label": None})
    assert (response.status_code, response.json()["ttl_seconds"]) == (201, 900)


@pytest.mark.parametrize("ttl", [59, 86401, "60", 90.5])
async def test_a_time_to_live_out_of_range_is_refused(node: NodeUnderTest, ttl: object) -> None:
    response = await node.client.post(SESSIONS, json={"ttl_seconds": ttl})
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"] == ["body", "ttl_seconds"]


async def test_the_longest_that_a_session_takes(node: NodeUnderTest) -> None:
    session = await opened(node, ttl_seconds=86_400, label="n" * 200)
    for length, author, status in ((65_536, 200, 200), (65_537, 200, 422), (65_536, 201, 422)):
        line = {"body": "x" * length, "author": "n" * author}
        assert (await node.client.post(messages(session), json=line)).status_code == status


async def test_lines_are_numbered_without_a_gap(node: NodeUnderTest) -> None:
    session = await opened(node)
    sent = [await node.client.post(messages(session), json={"body": f"line {n}"}) for n in range(3)]
    assert [response.json()["seq"] for response in sent] == [1, 2, 3]
    assert sent[0].json()["session_id"] == session["session_id"]
    page = (await node.client.get(messages(session))).json()
    assert [(line["seq"], line["body"], line["author"]) for line in page["lines"]] == [
        (1, "line 0", None),
        (2, "line 1", None),
        (3, "line 2", None),
    ]
    assert page["next_since_seq"] == 3


async def test_concurrent_writers_get_every_number_once(node: NodeUnderTest) -> None:
    session = await opened(node)
    sent = await asyncio.gather(*(node.client.post(messages(session), json={"body": f"line {n}"}) for n in range(100)))
    assert sorted(response.json()["seq"] for response in sent) == list(range(1, 101))
    page = (await node.client.get(messages(session))).json()
    assert (len(page["lines"]), page["next_since_seq"]) == (50, 50)


async def test_a_poller_gets_what_is_after_since_seq(node: NodeUnderTest) -> None:
    session = await opened(node, label="notes")
    for n in range(5):
        await node.client.post(messages(session), json={"body": f"line {n}", "author": "writer"})
    page = (await node.client.get(messages(session), params={"since_seq": 2, "limit": 2})).json()
    assert [(line["seq"], line["author"]) for line in page["lines"]] == [(3, "writer"), (4, "writer")]
    assert page["next_since_seq"] == 4
    assert page["label"] == "notes"
    assert page["expires_at"] == session["expires_at"]
    rest = (await node.client.get(messages(session), params={"since_seq": 4})).json()
    assert [line["seq"] for line in rest["lines"]] == [5]
    empty = (await node.client.get(messages(session), params={"since_seq": 5})).json()
    assert (empty["lines"], empty["next_since_seq"]) == ([], 5)


@pytest.mark.parametrize("query", ["since_seq=-1", "limit=0", "limit=101", "limit=ten", "since_seq=1.5", "wait=31"])
async def test_a_bad_query_is_named(node: NodeUnderTest, query: str) -> None:
    session = await opened(node)
    response = await node.client.get(f"{messages(session)}?{query}")
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"] == ["query", query.partition("=")[0]]


async def test_a_waiting_poller_gets_the_line_when_it_is_sent(node: NodeUnderTest) -> None:
    session = await opened(node)
    poll = asyncio.create_task(node.client.get(messages(session), params={"wait": 30}))
    listening = keys.session(session["session_id"])
    await node.listened_to(listening)
    assert not poll.done()
    await node.client.post(messages(session), json={"body": "news"})
    page = (await asyncio.wait_for(poll, WOKEN)).json()
    assert [line["body"] for line in page["lines"]] == ["news"]


async def test_a_waiting_poller_learns_that_the_session_was_destroyed(node: NodeUnderTest) -> None:
    session = await opened(node)
    poll = asyncio.create_task(node.client.get(messages(session), params={"wait": 30}))
    listening = keys.session(session["session_id"])
    await node.listened_to(listening)
    await destroy(node, session)
    assert (await asyncio.wait_for(poll, WOKEN)).status_code == 404


async def test_a_waiting_poller_learns_that_the_session_expired(node: NodeUnderTest) -> None:
    session = await opened(node)
    await node.store.command("PEXPIRE", keys.session(session["session_id"]), 500)
    poll = asyncio.create_task(node.client.get(messages(session), params={"wait": 30}))
    assert (await asyncio.wait_for(poll, WOKEN)).status_code == 404


async def test_a_wait_that_ends_answers_with_no_lines(node: NodeUnderTest) -> None:
    session = await opened(node)
    response = await node.client.get(messages(session), params={"wait": 0.05})
    assert response.json()["lines"] == []


@pytest.mark.parametrize("body", ["", "   ", "\u202e\u0007", "\u200b\u3164", "\u200d"])
async def test_an_empty_line_is_refused(node: NodeUnderTest, body: str) -> None:
    session = await opened(node)
    response = await node.client.post(messages(session), json={"body": body})
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"] == ["body", "body"]


async def test_lines_may_be_in_any_language(node: NodeUnderTest) -> None:
    session = await opened(node)
    await node.client.post(messages(session), json={"body": "こんにちは世界 👋"})
    page = (await node.client.get(messages(session))).json()
    assert page["lines"][0]["body"] == "こんにちは世界 👋"


async def test_control_sequences_are_taken_out_of_a_line(node: NodeUnderTest) -> None:
    session = await opened(node)
    await node.client.post(messages(session), json={"body": "\x1b[31mred\x1b[0m\tand\nplain\x00"})
    page = (await node.client.get(messages(session))).json()
    assert page["lines"][0]["body"] == "red\tand\nplain"


async def test_what_nobody_sees_is_taken_out_of_a_line_and_refused_in_a_name(node: NodeUnderTest) -> None:
    session = await opened(node)
    await node.client.post(messages(session), json={"body": "می\u200cروم\u200b 👩\u200d🚀\U000e0041"})
    page = (await node.client.get(messages(session))).json()
    assert page["lines"][0]["body"] == "می\u200cروم 👩\u200d🚀"
    line = {"body": "hello", "author": "plan\u200bner"}
    assert (await node.client.post(messages(session), json=line)).status_code == 422
    assert (await node.client.post(SESSIONS, json={"label": "\u00ad"})).status_code == 422


async def test_no_name_beside_a_line_can_be_taken_for_another(node: NodeUnderTest) -> None:
    session = await opened(node)
    response = await node.client.post(messages(session), json={"body": "hello", "author": "pl\u0430nner"})
    assert response.status_code == 422
    (issue,) = response.json()["detail"]
    assert issue["loc"] == ["body", "author"]
    assert "must not mix alphabets" in issue["msg"]
    assert (await node.client.post(messages(session), json={"body": "hello", "author": "Иван"})).status_code == 200


async def destroy(node: NodeUnderTest, session: dict[str, Any]) -> None:
    response = await node.client.post(
        f"{SESSIONS}/{session['session_id']}/destroy", json={"destroy_token": session["destroy_token"]}
    )
    assert response.status_code == 200


async def test_nothing_is_left_of_a_destroyed_session(node: NodeUnderTest) -> None:
    session = await opened(node)
    await node.client.post(messages(session), json={"body": "secret plan"})
    await destroy(node, session)
    again = {"destroy_token": session["destroy_token"]}
    assert (await node.client.get(messages(session))).status_code == 404
    assert (await node.client.post(messages(session), json={"body": "more"})).status_code == 404
    assert (await node.client.post(f"{SESSIONS}/{session['session_id']}/destroy", json=again)).status_code == 404
    for key in (keys.session(session["session_id"]), keys.lines(session["session_id"])):
        assert await node.store.command("EXISTS", key) == 0


async def test_a_wrong_destroy_token_is_refused(node: NodeUnderTest) -> None:
    session, other = await opened(node), await opened(node)
    for token in ("", "wrong", other["destroy_token"]):
        response = await node.client.post(f"{SESSIONS}/{session['session_id']}/destroy", json={"destroy_token": token})
        assert response.status_code == 403
        assert response.headers["x-error-code"] == "session.token"
    assert (await node.client.get(messages(session))).status_code == 200


@pytest.mark.parametrize("session_id", ["nonsense", "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"])
async def test_an_unknown_session_is_not_found(node: NodeUnderTest, session_id: str) -> None:
    path = f"{SESSIONS}/{session_id}"
    assert (await node.client.get(f"{path}/messages")).status_code == 404
    assert (await node.client.post(f"{path}/messages", json={"body": "hello"})).status_code == 404
    assert (await node.client.post(f"{path}/destroy", json={"destroy_token": "x"})).status_code == 404


async def test_an_expired_session_is_not_found(node: NodeUnderTest) -> None:
    session = await opened(node)
    await node.client.post(messages(session), json={"body": "hello"})
    await node.store.command("PEXPIRE", keys.session(session["session_id"]), 0)
    assert (await node.client.get(messages(session))).status_code == 404
    assert (await node.client.post(messages(session), json={"body": "late"})).status_code == 404


async def test_the_lines_expire_with_the_session(node: NodeUnderTest) -> None:
    session = await opened(node)
    await node.client.post(messages(session), json={"body": "hello"})
    ends = [
        await node.store.command("PEXPIRETIME", key)
        for key in (keys.session(session["session_id"]), keys.lines(session["session_id"]))
    ]
    assert ends[0] == ends[1] == round(datetime.fromisoformat(session["expires_at"]).timestamp() * 1000)


async def test_a_retried_line_is_appended_once(node: NodeUnderTest) -> None:
    session = await opened(node)
    key = {"idempotency-key": "step-1"}
    first = await node.client.post(messages(session), json={"body": "step 1"}, headers=key)
    again = await node.client.post(messages(session), json={"body": "step 1"}, headers=key)
    assert again.json() == first.json()
    assert again.headers["idempotency-replayed"] == "true"
    assert len((await node.client.get(messages(session))).json()["lines"]) == 1
    other = await node.client.post(messages(session), json={"body": "step 2"}, headers=key)
    assert other.status_code == 422


async def test_a_line_with_a_key_is_taken_in_the_last_millisecond(node: NodeUnderTest) -> None:
    session = await opened(node)
    await node.client.post(messages(session), json={"body": "step 1"})
    await node.store.command("HSET", keys.session(session["session_id"]), "expires_at", 1)  # as if its time were over
    late = await node.client.post(messages(session), json={"body": "step 2"}, headers={"idempotency-key": "step-2"})
    assert (late.status_code, late.json()["seq"]) == (200, 2)


async def test_a_retried_creation_gives_the_same_session_and_token(node: NodeUnderTest) -> None:
    key = {"idempotency-key": "pad"}
    first = await node.client.post(SESSIONS, json={"label": "pad"}, headers=key)
    again = await node.client.post(SESSIONS, json={"label": "pad"}, headers=key)
    assert again.json() == first.json()
    assert again.headers["idempotency-replayed"] == "true"
    other = await node.client.post(SESSIONS, json={"label": "other"}, headers=key)
    assert (other.status_code, other.headers["x-error-code"]) == (422, "idempotency.conflict")


@pytest.mark.settings(limits=Limits(session=Limit(0, 60)))
class TestKeysOfLines:
    """Keys are kept in the partition of their session."""

    async def test_a_key_used_in_one_session_is_unused_in_another(self, node: NodeUnderTest) -> None:
        line, key = {"body": "step 1"}, {"idempotency-key": "step-1"}
        for _ in range(ids.PARTITIONS + 1):  # so that at least two of them are in one partition
            session = await opened(node)
            sent = await node.client.post(messages(session), json=line, headers=key)
            assert sent.json()["session_id"] == session["session_id"]
            assert "idempotency-replayed" not in sent.headers


@pytest.mark.settings(session_max_lines=3, session_max_bytes=20)
class TestCaps:
    """What one session may hold."""

    async def test_a_session_that_holds_its_lines_takes_no_more(self, node: NodeUnderTest) -> None:
        session = await opened(node)
        codes = [(await node.client.post(messages(session), json={"body": "x"})).status_code for _ in range(4)]
        assert codes == [200, 200, 200, 409]

    async def test_a_session_that_holds_its_bytes_takes_no_more(self, node: NodeUnderTest) -> None:
        session = await opened(node)
        assert (await node.client.post(messages(session), json={"body": "\u00e9" * 11})).status_code == 409
        assert (await node.client.post(messages(session), json={"body": "\u00e9" * 10})).status_code == 200
        response = await node.client.post(messages(session), json={"body": "y"})
        assert response.status_code == 409
        assert response.headers["x-error-code"] == "session.full"


async def test_the_eleventh_session_in_a_minute_is_refused(node: NodeUnderTest) -> None:
    codes = [(await node.client.post(SESSIONS)).status_code for _ in range(11)]
    assert codes == [201] * 10 + [429]


async def test_sessions_are_in_no_list(node: NodeUnderTest) -> None:
    session = await opened(node, label="quiet")
    await node.client.post(messages(session), json={"body": "nobody should find this"})
    assert (await node.client.get("/api/v1/board")).json()["total"] == 0
    assert await node.names("events:*") == []


async def test_a_poller_that_goes_away_is_not_held(node: NodeUnderTest) -> None:
    session = await opened(node)
    gone = asyncio.Event()
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": messages(session),
        "raw_path": messages(session).encode(),
        "query_string": b"wait=30",
        "client": ("203.0.113.7", 1),
        "headers": [(b"host", b"node.example")],
    }
    poll = asyncio.create_task(node.app(scope, receive, send))
    await node.listened_to(keys.session(session["session_id"]))
    gone.set()
    await asyncio.wait_for(poll, WOKEN)
    assert sent == []


MALFORMED: list[dict[str, Any]] = [
    {"content": b"{", "headers": {"content-type": "application/json"}},
    {"content": b"{}", "headers": {"content-type": "text/csv"}},
    {"json": {"ttl_seconds": 1}},
    {"json": {"label": "two\nlines"}},
    {"json": {"callback_url": "http://localhost/"}},
]


@pytest.mark.parametrize("wanted", MALFORMED)
async def test_a_malformed_session_counts_against_the_limit(node: NodeUnderTest, wanted: dict[str, Any]) -> None:
    codes = [(await node.client.post(SESSIONS, **wanted)).status_code for _ in range(10)]
    assert 400 <= min(codes) <= max(codes) < 429
    assert (await node.client.post(SESSIONS)).status_code == 429


@pytest.mark.settings(limits=Limits(line=Limit(2, 60)))
class TestLineLimit:
    """What counts against the limit of lines."""

    @pytest.mark.parametrize("line", [{"body": ""}, {"body": "\u200b"}, {"body": "hello", "author": "a\nb"}, {}])
    async def test_a_malformed_line_counts_against_the_limit_of_its_session(
        self, node: NodeUnderTest, line: dict[str, Any]
    ) -> None:
        session, other = await opened(node), await opened(node)
        codes = [(await node.client.post(messages(session), json=line)).status_code for _ in range(3)]
        assert codes == [422, 422, 429]
        assert (await node.client.post(messages(other), json={"body": "hello"})).status_code == 200

    async def test_redis_keeps_nothing_about_lines_to_a_session_that_is_gone(self, node: NodeUnderTest) -> None:
        gone = {"session_id": "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"}
        codes = [(await node.client.post(messages(gone), json={"body": "hello"})).status_code for _ in range(3)]
        assert codes == [404] * 3
        codes = [(await node.client.post(messages(gone), json={})).status_code for _ in range(3)]
        assert codes == [422] * 3
        assert await node.names("rate:*:line:*") == []


async def test_a_refused_session_takes_no_place_of_its_client(node: NodeUnderTest) -> None:
    await node.client.post(SESSIONS, json={"callback_url": "http://localhost/"})
    assert await node.names("held:*") == []


async def test_a_destroyed_session_gives_its_place_back(node: NodeUnderTest) -> None:
    session = await opened(node)
    assert await node.names("held:*")
    await destroy(node, session)
    assert await node.names("held:*") == []
