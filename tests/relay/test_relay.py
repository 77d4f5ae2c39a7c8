"""The relay over HTTP, on a real Redis (SPEC 4.1, DESIGN 8)."""

import asyncio
from typing import Any

import pytest

from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest, until
from tests.support.servers import WOKEN

RELAY = "/api/v1/relay"
JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain"}
HELLO = {"message": "Hello, who can summarise a long report about solar panels?"}


async def test_a_json_message_is_acknowledged(node: NodeUnderTest) -> None:
    ack = json_of(await node.client.post(RELAY, json=HELLO))
    assert ack["status"] == "acknowledged"
    assert ack["node_id"] == node.settings.node_id
    assert ack["post_url"] == f"http://node.example/api/v1/board/threads/{ack['reference_id']}"


async def test_plain_text_is_acknowledged(node: NodeUnderTest) -> None:
    response = await node.client.post(RELAY, content="Hello world", headers=TEXT)
    assert response.json()["status"] == "acknowledged"


async def test_a_public_message_becomes_a_thread_with_the_same_id(node: NodeUnderTest) -> None:
    sent = HELLO | {"author": "sun-agent"}
    reference = (await node.client.post(RELAY, json=sent)).json()["reference_id"]
    thread = (await node.client.get(f"/api/v1/board/threads/{reference}")).json()
    assert thread["title"] == thread["body"] == HELLO["message"]
    assert thread["author"] == "sun-agent"
    assert thread["source"] == "relay"
    assert thread["status"] == "open"


async def test_the_worker_lists_a_public_message(node: NodeUnderTest) -> None:
    reference = (await node.client.post(RELAY, json=HELLO)).json()["reference_id"]

    async def listed() -> bool:
        threads = (await node.client.get("/api/v1/board")).json()["threads"]
        return [thread["id"] for thread in threads] == [reference]

    async with node.worker():
        await until(listed)


async def test_a_message_with_public_false_is_kept_off_the_board(node: NodeUnderTest) -> None:
    ack = (await node.client.post(RELAY, json=HELLO | {"public": False})).json()
    assert "post_url" not in ack
    reference = ack["reference_id"]
    assert (await node.client.get(f"/api/v1/board/threads/{reference}")).status_code == 404
    kept = (await node.client.get(f"{RELAY}/{reference}")).json()
    assert kept["payload"] == HELLO | {"public": False}
    assert kept["expires_at"] > kept["received_at"]


async def test_a_public_message_can_be_read_as_it_was_sent(node: NodeUnderTest) -> None:
    sent = HELLO | {"budget": [1, 2, {"deep": True}]}
    reference = (await node.client.post(RELAY, json=sent)).json()["reference_id"]
    kept = (await node.client.get(f"{RELAY}/{reference}")).json()
    assert kept["payload"] == sent
    assert kept["expires_at"] is None


@pytest.mark.parametrize("text", ["Who can summarise a long report?", " Who can summarise a long report?\n"])
async def test_a_public_text_can_be_read_as_it_was_sent(node: NodeUnderTest, text: str) -> None:
    reference = (await node.client.post(RELAY, content=text, headers=TEXT)).json()["reference_id"]
    assert (await node.client.get(f"{RELAY}/{reference}")).json()["payload"] == text


@pytest.mark.settings(callback_allow_private=True)
class TestCallbackUrls:
    """To whom the callback_url of a message is shown."""

    @pytest.mark.parametrize("member", ["callback_url", "callback\\u005furl"])
    async def test_that_of_a_public_message_is_shown_to_nobody(self, node: NodeUnderTest, member: str) -> None:
        body = f'{{"message": "Hello there", "{member}": "http://127.0.0.1:9/?key=secret", "price": 1.10, "n": 1e300}}'
        response = await node.client.post(RELAY, content=body, headers=JSON)
        shown = await node.client.get(f"{RELAY}/{response.json()['reference_id']}")
        assert shown.content.endswith(b'"payload":{"message":"Hello there","price":1.10,"n":1e300}}')

    async def test_it_is_no_part_of_what_a_message_says(self, node: NodeUnderTest) -> None:
        url = "http://127.0.0.1:9/?key=" + "secret" * 20
        for sent, title in (({"remark": "Hello there"}, "Hello there"), ({"agent": "a-7", "language": "en-US"}, "a-7")):
            response = await node.client.post(RELAY, json=sent | {"callback_url": url})
            thread = (await node.client.get(response.json()["post_url"])).json()
            assert (thread["title"], thread["body"]) == (title, title)

    async def test_that_of_a_private_message_is_part_of_it(self, node: NodeUnderTest) -> None:
        sent = HELLO | {"public": False, "callback_url": "http://127.0.0.1:9/?key=secret"}
        reference = (await node.client.post(RELAY, json=sent)).json()["reference_id"]
        assert (await node.client.get(f"{RELAY}/{reference}")).json()["payload"] == sent


async def test_a_message_that_never_changes_is_not_waited_for(node: NodeUnderTest) -> None:
    reference = (await node.client.post(RELAY, json=HELLO)).json()["reference_id"]
    response = await asyncio.wait_for(node.client.get(f"{RELAY}/{reference}?wait=30"), WOKEN)
    assert response.json()["payload"] == HELLO


@pytest.mark.parametrize("wait", ["-1", "30.5", "99", "soon", ""])
async def test_a_bad_wait_is_named(node: NodeUnderTest, wait: str) -> None:
    reference = (await node.client.post(RELAY, json=HELLO)).json()["reference_id"]
    response = await node.client.get(f"{RELAY}/{reference}?wait={wait}")
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"] == ["query", "wait"]


@pytest.mark.parametrize("reference", ["nonsense", "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"])
async def test_an_unknown_reference_is_not_found(node: NodeUnderTest, reference: str) -> None:
    response = await node.client.get(f"{RELAY}/{reference}")
    assert response.status_code == 404
    assert response.headers["x-error-code"] == "relay.unknown"


async def test_a_board_thread_is_not_a_relay_message(node: NodeUnderTest) -> None:
    posted = await node.client.post("/api/v1/board", json={"title": "A question", "body": "How does this work?"})
    assert (await node.client.get(f"{RELAY}/{posted.json()['id']}")).status_code == 404


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({"message": 5}, "message"),
        ({"hello": 5}, "hello"),
        ({"public": "no"}, "public"),
        ({"callback_url": 7}, "callback_url"),
        ({"language": ["en-US"]}, "language"),
    ],
)
async def test_a_field_of_the_wrong_type_is_named(node: NodeUnderTest, payload: dict[str, object], field: str) -> None:
    response = await node.client.post(RELAY, json=payload)
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"] == ["body", field]


@pytest.mark.parametrize("body", ["[]", "5", "null", '"text"'])
async def test_json_that_is_no_object_is_refused(node: NodeUnderTest, body: str) -> None:
    response = await node.client.post(RELAY, content=body, headers=JSON)
    assert response.status_code == 422


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/html", ""])
async def test_another_content_type_is_refused(node: NodeUnderTest, kind: str) -> None:
    response = await node.client.post(RELAY, content=b"message=hello", headers={"content-type": kind})
    assert response.status_code == 415


async def test_exactly_ten_of_sixty_posts_at_once_are_acknowledged(node: NodeUnderTest) -> None:
    answers = await asyncio.gather(*(node.client.post(RELAY, json={"message": f"Message {n}"}) for n in range(60)))
    codes = [answer.status_code for answer in answers]
    assert codes.count(200) == 10
    assert codes.count(429) == 50
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert refused.headers["ratelimit-policy"] == '"relay";q=10;w=60'
    assert refused.headers["ratelimit"].startswith('"relay";r=0;t=')


async def test_refused_payloads_count_against_the_limit(node: NodeUnderTest) -> None:
    for _ in range(10):
        assert (await node.client.post(RELAY, json={"message": "Hola mundo amigo"})).status_code == 400
    assert (await node.client.post(RELAY, json=HELLO)).status_code == 429


async def test_an_idempotency_key_gives_the_same_answer_again(node: NodeUnderTest) -> None:
    key = {"idempotency-key": "report-1"}
    first = await node.client.post(RELAY, json=HELLO, headers=key)
    again = await node.client.post(RELAY, json=HELLO, headers=key)
    assert again.json() == first.json()
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    other = await node.client.post(RELAY, json={"message": "Something else"}, headers=key)
    assert other.status_code == 422
    assert other.headers["x-error-code"] == "idempotency.conflict"


async def test_a_key_of_a_stream_is_not_one_of_the_relay(node: NodeUnderTest) -> None:
    sent: dict[str, Any] = {"content": "Hello world", "headers": TEXT | {"idempotency-key": "report-1"}}
    streamed = (await node.client.post("/api/v1/wire/stream", **sent)).json()
    relayed = (await node.client.post(RELAY, **sent)).json()
    assert relayed["reference_id"] != streamed["reference_id"]
    assert (await node.client.get(relayed["post_url"])).json()["id"] == relayed["reference_id"]


async def test_the_same_bytes_as_text_and_as_json_are_two_requests(node: NodeUnderTest) -> None:
    key = {"idempotency-key": "report-1"}
    sent = b'{"message": "Hello there", "public": false}'
    await node.client.post(RELAY, content=sent, headers=key | JSON)
    other = await node.client.post(RELAY, content=sent, headers=key | TEXT)
    assert (other.status_code, other.headers["x-error-code"]) == (422, "idempotency.conflict")


async def test_keys_of_different_clients_do_not_meet(node: NodeUnderTest) -> None:
    key = {"idempotency-key": "report-1"}
    first = await node.client.post(RELAY, json=HELLO, headers=key)
    other = await node.client_at("203.0.113.9").post(RELAY, json=HELLO, headers=key)
    assert other.json()["reference_id"] != first.json()["reference_id"]


async def test_a_stream_of_text_is_acknowledged_and_kept_off_the_board(node: NodeUnderTest) -> None:
    log = "Build started.\nAll 214 tests passed.\nBuild finished without errors.\n"
    response = await node.client.post(
        "/api/v1/wire/stream", content=log, headers={"content-type": "application/x-ndjson"}
    )
    ack = response.json()
    assert ack["status"] == "acknowledged"
    assert (await node.client.get(f"/api/v1/board/threads/{ack['reference_id']}")).status_code == 404
    assert (await node.client.get(f"{RELAY}/{ack['reference_id']}")).json()["payload"] == log


async def test_bytes_in_a_stream_are_sent_to_the_artifacts(node: NodeUnderTest) -> None:
    response = await node.client.post("/api/v1/wire/stream", content=b"\xff\xfe\x00binary")
    assert response.status_code == 415
    assert "/api/v1/artifacts" in response.json()["error"]


async def test_a_body_of_one_mebibyte_is_taken_and_one_byte_more_is_not(node: NodeUnderTest) -> None:
    text = ("All is well with the solar report. " * 40000)[: 1024 * 1024]
    assert (await node.client.post(RELAY, content=text, headers=TEXT)).status_code == 200
    response = await node.client.post(RELAY, content=text + ".", headers=TEXT)
    assert response.status_code == 413
    assert response.headers["x-error-code"] == "body.too_large"


async def test_a_message_of_which_nothing_can_be_seen_gives_way_to_hello(node: NodeUnderTest) -> None:
    said = await node.client.post(RELAY, json={"message": "\u200b", "hello": "Hello there, my friend."})
    thread = await node.client.get(f"/api/v1/board/threads/{said.json()['reference_id']}")
    assert thread.json()["body"] == "Hello there, my friend."
