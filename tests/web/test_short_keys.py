"""Idempotency-Keys that others could guess: what they get, and what they do not get."""

from typing import Any

import httpx2
import pytest

from node.store import keys
from tests.support.node_under_test import NodeUnderTest
from tests.web.paths import ARTIFACT, DIGEST

SHORT, LONG = "k" * 15, "k" * 16
OFFER = {"publisher_id": "report-desk", "title": "Summarise a report"}
CLAIM = {"assignee_id": "summary-agent"}
MESSAGE = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Summarise a report for me."}]}}

TOKENS = {
    "session": "destroy_token",
    "inbox": "inbox_token",
    "offer": "publisher_token",
    "claim": "claim_token",
    "artifact": "upload_url",
}


class Calls:
    """Requests whose answers have tokens, made by one client under one key."""

    def __init__(self, node: NodeUnderTest, client: httpx2.AsyncClient) -> None:
        self.node = node
        self.client = client
        self.task = ""

    async def ask(self, what: str, key: str, *, in_body: bool = False) -> httpx2.Response:
        header, named = ({}, {"idempotency_key": key}) if in_body else ({"idempotency-key": key}, {})
        post = self.client.post
        match what:
            case "session":
                return await post("/api/v1/sessions", json={}, headers=header)
            case "inbox":
                return await post("/api/v1/inboxes", json={}, headers=header)
            case "offer":
                return await post("/api/v1/tasks", json=OFFER | named, headers=header)
            case "artifact":
                return await post("/api/v1/artifacts", json=ARTIFACT, headers=header | DIGEST)
            case "message":
                return await post("/api/v1/a2a/tasks", json=MESSAGE, headers=header)
            case _:
                if not self.task:
                    self.task = (await post("/api/v1/tasks", json=OFFER)).json()["id"]
                return await post(f"/api/v1/tasks/{self.task}/claim", json=CLAIM | named, headers=header)

    async def wait(self, what: str, answer: dict[str, Any], seconds: int) -> None:
        """Move the first answer this far into the past."""
        if what in ("session", "inbox"):  # the record ends with a time, that of its end or its beginning
            (record,) = await self.node.names("idem:*")
            kept = await self.node.store.command("GET", record)
            assert isinstance(kept, bytes)
            first, _, time = kept.decode().rpartition("@")
            await self.node.store.command("SET", record, f"{first}@{int(time) - seconds * 1000}", "KEEPTTL")
            return
        entity = answer["task"]["id"] if what == "message" else answer["id"]
        key = keys.artifact(entity) if what == "artifact" else keys.task(entity)
        await self.node.store.command(
            "HINCRBY", key, "claimed_at" if what == "claim" else "created_at", -seconds * 1000
        )


def token(what: str, answer: httpx2.Response) -> str:
    """Return what an answer gives a right to. An upload URL also contains the time left, which is removed."""
    given: str = answer.json()[TOKENS[what]]
    return given.rpartition("/")[0] if what == "artifact" else given


@pytest.fixture
def calls(node: NodeUnderTest) -> Calls:
    return Calls(node, node.client)


@pytest.mark.parametrize("what", TOKENS)
@pytest.mark.parametrize(("key", "seconds"), [(SHORT, 50), (LONG, 600)])
async def test_a_short_key_gets_a_token_again_within_a_minute_and_a_long_one_later(
    calls: Calls, key: str, seconds: int, what: str
) -> None:
    first = await calls.ask(what, key)
    await calls.wait(what, first.json(), seconds)
    again = await calls.ask(what, key)
    assert again.headers["idempotency-replayed"] == "true"
    assert token(what, again) == token(what, first)


@pytest.mark.parametrize("what", [*TOKENS, "message"])
async def test_after_that_it_gets_none(calls: Calls, what: str) -> None:
    """Otherwise anybody behind a shared address could get the first client's destroy_token for a day with the key "1"
    and an empty body.
    """
    first = await calls.ask(what, SHORT)
    await calls.wait(what, first.json(), 61)
    again = await calls.ask(what, SHORT)
    assert again.status_code == 422
    said = again.json()["error"]["message"] if what == "message" else again.json()["detail"][0]["msg"]
    assert said == (
        "This key is so easy to guess that it returns the token for 60 s only; use 16 or more random characters."
    )
    if what != "message":
        assert again.headers["x-error-code"] == "idempotency.short"
        assert again.json()["detail"][0]["loc"] == ["header", "Idempotency-Key"]


@pytest.mark.parametrize("what", ["offer", "claim"])
async def test_a_short_key_in_the_body_is_named_there(calls: Calls, what: str) -> None:
    first = await calls.ask(what, SHORT, in_body=True)
    await calls.wait(what, first.json(), 61)
    again = await calls.ask(what, SHORT, in_body=True)
    assert again.json()["detail"][0]["loc"] == ["body", "idempotency_key"]


async def test_who_guesses_a_publishers_key_gets_nothing_and_takes_nothing_away(node: NodeUnderTest) -> None:
    """Otherwise a stranger who tries "1" with a public publisher_id gets the publisher_token, or blocks the key for a
    day.
    """
    async with node.client_at("198.51.100.9") as elsewhere:
        stranger, publisher = Calls(node, elsewhere), Calls(node, node.client)
        squatted = await stranger.ask("offer", "1")
        mine = await publisher.ask("offer", "1")
        assert (mine.status_code, mine.json()["publisher_id"]) == (201, OFFER["publisher_id"])
        assert "idempotency-replayed" not in mine.headers
        assert mine.json()["publisher_token"] != squatted.json()["publisher_token"]
        assert (await publisher.ask("offer", "1")).json()["id"] == mine.json()["id"]
        stranger.task = publisher.task = mine.json()["id"]
        won = await publisher.ask("claim", "1")
        lost = await stranger.ask("claim", "1")
        assert (won.status_code, lost.status_code) == (200, 409)
        assert "claim_token" not in lost.json()


@pytest.mark.parametrize("key", ["claim-{id}", "{id}/{name}/1"])
async def test_a_key_that_is_made_of_what_everybody_knows_is_no_secret(node: NodeUnderTest, key: str) -> None:
    """Otherwise anybody who knows the contract and the worker gets the claim_token."""
    async with node.client_at("198.51.100.9") as elsewhere:
        stranger, worker = Calls(node, elsewhere), Calls(node, node.client)
        offer = (await node.client.post("/api/v1/tasks", json=OFFER)).json()
        stranger.task = worker.task = offer["id"]
        guessed = key.format(id=offer["id"], name=CLAIM["assignee_id"])
        won, lost, again = [await each.ask("claim", guessed) for each in (worker, stranger, worker)]
        assert (won.status_code, lost.status_code) == (200, 409)
        assert again.json()["claim_token"] == won.json()["claim_token"]


@pytest.mark.parametrize("in_body", [True, False], ids=["body", "header"])
async def test_a_publisher_or_worker_with_a_long_key_may_move(node: NodeUnderTest, in_body: bool) -> None:
    async with node.client_at("198.51.100.9") as elsewhere:
        here, there = Calls(node, node.client), Calls(node, elsewhere)
        first, again = [await each.ask("offer", LONG, in_body=in_body) for each in (here, there)]
        assert first.json() == again.json()
        here.task = there.task = first.json()["id"]
        claimed, told = [await each.ask("claim", LONG, in_body=in_body) for each in (here, there)]
        assert claimed.json() == told.json()


@pytest.mark.parametrize(("name", "is_secret"), [("agent-7", True), ("agent-77", False)])
async def test_a_name_of_few_letters_may_be_in_a_secret_by_chance(
    node: NodeUnderTest, name: str, *, is_secret: bool
) -> None:
    key = {"idempotency-key": name + LONG[len(name) :]}
    async with node.client_at("198.51.100.9") as elsewhere:
        offers = [
            (await client.post("/api/v1/tasks", json=OFFER | {"publisher_id": name}, headers=key)).json()["id"]
            for client in (node.client, elsewhere)
        ]
    assert (offers[0] == offers[1]) is is_secret


@pytest.mark.parametrize(("key", "status"), [("", 422), ("k", 201), ("k" * 255, 201), ("k" * 256, 422)])
@pytest.mark.parametrize("in_body", [False, True], ids=["header", "body"])
async def test_a_key_has_1_to_255_characters(node: NodeUnderTest, key: str, status: int, *, in_body: bool) -> None:
    named, header = ({"idempotency_key": key}, "of the header") if in_body else ({}, key)
    response = await node.client.post("/api/v1/tasks", json=OFFER | named, headers={"idempotency-key": header})
    assert response.status_code == status
