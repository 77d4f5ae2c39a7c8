"""The relay over HTTP, on a real Redis (SPEC 4.1, DESIGN 8)."""

import asyncio
from typing import Any

import pytest

from node.text.payload import payload_is_english
from tests.support.node_under_test import NodeUnderTest, until

RELAY = "/api/v1/relay"
JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain"}
HELLO = {"message": "Hello, who can summarise a long report about solar panels?"}


async def test_a_json_message_is_acknowledged(node: NodeUnderTest) -> None:
    response = await node.client.post(RELAY, json=HELLO)
    assert response.status_code == 200
    ack = response.json()
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


class TestCallbackUrls:
    """Whom the callback_url of a message is shown to."""

    @pytest.fixture
    def overrides(self) -> dict[str, Any]:
        return {"callback_allow_private": True}

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
    response = await asyncio.wait_for(node.client.get(f"{RELAY}/{reference}?wait=30"), 10)
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
    "payload",
    [
        {"message": "Hola, necesito ayuda con este documento por favor"},
        {"message": "Bonjour le monde, comment allez-vous?"},
        HELLO | {"language": "fr-FR"},
        {"hello": "Guten Tag zusammen, wer kann mir bitte helfen?"},
    ],
)
async def test_a_message_that_is_not_english_is_refused(node: NodeUnderTest, payload: dict[str, str]) -> None:
    response = await node.client.post(RELAY, json=payload)
    assert response.status_code == 400
    assert list(response.json()) == ["error"]
    assert "plain English (en-US)" in response.json()["error"]
    assert response.headers["x-error-code"] == "language.not_english"


@pytest.mark.parametrize(
    "payload",
    [
        {"name": "Necesito ayuda urgente"},
        {"from": "Привет, мой друг"},
        {"message": '{"name": "Necesito ayuda urgente"}'},
    ],
)
async def test_names_that_are_not_english_are_no_thread(node: NodeUnderTest, payload: dict[str, str]) -> None:
    ack = (await node.client.post(RELAY, json=payload)).json()
    thread = (await node.client.get(ack["post_url"])).json()
    assert (thread["title"], thread["body"]) == ("Untitled message", "")
    assert (await node.client.get(f"{RELAY}/{ack['reference_id']}")).json()["payload"] == payload


async def test_a_text_that_is_json_shows_what_was_judged(node: NodeUnderTest) -> None:
    text = '{"name": "Necesito ayuda urgente", "remark": "All tests passed."}\n'
    ack = (await node.client.post(RELAY, content=text, headers=TEXT)).json()
    assert (await node.client.get(ack["post_url"])).json()["body"] == "All tests passed."
    assert (await node.client.get(f"{RELAY}/{ack['reference_id']}")).json()["payload"] == text


@pytest.mark.parametrize("text", ["\u200b\u2060", "\u3164 \u00ad\n", "\U000e0041\U000e0042", "\x1b[0m"])
async def test_a_text_that_shows_nothing_is_empty(node: NodeUnderTest, text: str) -> None:
    for path in (RELAY, "/api/v1/wire/stream"):
        response = await node.client.post(path, content=text.encode(), headers=TEXT)
        assert response.status_code == 422
        assert response.json()["detail"][0]["msg"] == "body is empty"


async def test_what_nobody_sees_is_not_shown_on_the_board_and_kept_as_sent(node: NodeUnderTest) -> None:
    text, author = "Hello\u200b there\U000e0041 👩\u200d🚀\n", "sun\u2060-\nagent"
    both: list[dict[str, Any]] = [{"content": text, "headers": TEXT}, {"json": {"message": text, "author": author}}]
    for sent in both:
        ack = (await node.client.post(RELAY, **sent)).json()
        thread = (await node.client.get(ack["post_url"])).json()
        assert thread["title"] == thread["body"] == "Hello there 👩\u200d🚀"
        kept = (await node.client.get(f"{RELAY}/{ack['reference_id']}")).json()["payload"]
        assert kept == sent.get("json", text)
        assert thread["author"] == ("sun- agent" if "json" in sent else None)


@pytest.mark.parametrize(
    "text",
    [
        "N\x01e\x02c\x01e\x02s\x01i\x02t\x01o a\x02y\x01u\x02d\x01a",
        "Necesito ayuda urgente. " * 800 + "Hello there. " * 60_000,
    ],
    ids=["between its letters", "before a long English text"],
)
async def test_words_that_only_the_thread_would_show_are_not_shown(node: NodeUnderTest, text: str) -> None:
    response = await node.client.post(RELAY, json={"message": text})
    thread = (await node.client.get(response.json()["post_url"])).json()
    assert (thread["title"], thread["body"]) == ("Untitled message", "")


async def test_a_name_that_could_be_taken_for_another_is_not_shown(node: NodeUnderTest) -> None:
    ack = (await node.client.post(RELAY, json=HELLO | {"author": "\u0410dmin (node operator)"})).json()
    assert (await node.client.get(ack["post_url"])).json()["author"] is None


async def test_of_many_long_fields_nothing_is_shown_that_would_not_pass_by_itself(node: NodeUnderTest) -> None:
    """Each field beyond the first two is looked at less closely, the more there are: one of these passes so."""
    english = "The planner hands out small pieces of work and collects the results in a session. "
    foreign = "El servidor funciona de nuevo y todos los agentes recibieron el mensaje de hoy. "
    fields = dict.fromkeys(("title", "body", "goal", "notes", "summary", "task", "input", "output"), english * 4)
    payloads = ({**fields, "content": (english + foreign) * 20 + str(number)} for number in range(1_000))
    response = await node.client.post(RELAY, json=next(filter(payload_is_english, payloads)))
    assert response.status_code == 200
    thread = (await node.client.get(response.json()["post_url"])).json()
    assert (thread["title"], thread["body"]) == ("Untitled message", "")


async def test_a_message_of_names_only_shows_them(node: NodeUnderTest) -> None:
    ack = (await node.client.post(RELAY, json={"from": "agent-7", "to": "agent-9", "type": "ping"})).json()
    assert (await node.client.get(ack["post_url"])).json()["body"] == "agent-7\nagent-9\nping"


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


async def test_the_third_same_payload_within_a_minute_is_silenced(node: NodeUnderTest) -> None:
    answers = [await node.client.post(RELAY, json=HELLO) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert answers[1].json()["status"] == "acknowledged"
    assert answers[2].content == b""
    other = await node.client_at("203.0.113.8").post(RELAY, json=HELLO)
    assert other.json()["status"] == "acknowledged"


async def test_order_and_white_space_do_not_make_json_another_payload(node: NodeUnderTest) -> None:
    same = [
        b'{"message": "Hello there", "public": false, "of": {"a": 1, "b": [true, null]}}',
        b'{"public":false,"of":{"b":[true,null],"a":1},"message":"Hello there"}',
        b'{"of": {"a": 1, "b": [ true, null ] },\n "message": "Hello\\u0020there", "public": false}',
    ]
    answers = [await node.client.post(RELAY, content=body, headers=JSON) for body in same]
    assert [len(answer.content) > 0 for answer in answers] == [True, True, False]


async def test_json_and_a_text_of_the_same_bytes_are_two_payloads(node: NodeUnderTest) -> None:
    body = b'{"message":"Hello there"}'
    answers = [await node.client.post(RELAY, content=body, headers=kind) for kind in (JSON, JSON, TEXT, TEXT)]
    assert all(answer.json()["status"] == "acknowledged" for answer in answers)


@pytest.mark.parametrize("header", [{"via": "1.1 relay-node"}, {"webhook-id": "msg_1"}])
async def test_a_message_that_comes_back_is_silenced(node: NodeUnderTest, header: dict[str, str]) -> None:
    response = await node.client.post(RELAY, json=HELLO, headers=header)
    assert (response.status_code, response.content) == (200, b"")
    assert len(await node.names("*")) == 1  # its place in the limit, and nothing else


async def test_a_message_that_passed_a_node_of_a_similar_name_is_kept(node: NodeUnderTest) -> None:
    response = await node.client.post(RELAY, json=HELLO, headers={"via": "1.1 edge.my-relay-node-proxy.example"})
    assert response.json()["status"] == "acknowledged"


async def test_every_line_of_via_counts(node: NodeUnderTest) -> None:
    lines = [("via", "1.1 edge.example"), ("via", "1.0 fred, 1.1 relay-node:8000")]
    response = await node.client.post(RELAY, json=HELLO, headers=lines)
    assert (response.status_code, response.content) == (200, b"")


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
