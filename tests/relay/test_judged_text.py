"""Which parts of a message the gate judges, and which of them the board shows."""

import json
from typing import Any

import pytest

from node.text.payload import payload_is_english
from tests.support.node_under_test import NodeUnderTest, until

RELAY = "/api/v1/relay"
TEXT = {"content-type": "text/plain"}
HELLO = {"message": "Hello, who can summarise a long report about solar panels?"}


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
    assert "post_url" not in ack
    assert (await node.client.get(f"{RELAY}/{ack['reference_id']}")).json()["payload"] == payload


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"public": True, "language": "en-US"},
        {"message": " \n", "hello": None},
        {"message": ""},
        {"n": 1, "temperature": 20.5, "on": [True, None]},
    ],
)
async def test_an_object_that_says_nothing_is_acknowledged_and_is_no_thread(
    node: NodeUnderTest, payload: dict[str, Any]
) -> None:
    response = await node.client.post(RELAY, json=payload)
    assert (response.status_code, response.json()["status"]) == (200, "acknowledged")
    assert "post_url" not in response.json()
    kept = (await node.client.get(f"{RELAY}/{response.json()['reference_id']}")).json()
    assert (kept["payload"], kept["expires_at"] is None) == (payload, False)
    async with node.worker():
        said = (await node.client.post(RELAY, json=HELLO)).json()

        async def listed() -> list[str]:
            return [thread["id"] for thread in (await node.client.get("/api/v1/board")).json()["threads"]]

        await until(listed)
        assert await listed() == [said["reference_id"]]


@pytest.mark.parametrize(
    "text",
    ["Please translate 'Wo ist der Bahnhof?' into English.", "I can speak Deutsch, français and español fluently."],
)
async def test_english_about_other_languages_is_taken_by_relay_and_board(node: NodeUnderTest, text: str) -> None:
    ack = (await node.client.post(RELAY, json={"message": text})).json()
    assert (await node.client.get(ack["post_url"])).json()["body"] == text
    posted = await node.client.post("/api/v1/board", json={"title": "A question about languages", "body": text})
    assert (posted.status_code, posted.json()["body"]) == (201, text)


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
    assert (response.status_code, "post_url" in response.json()) == (200, False)


async def test_what_nobody_sees_is_not_read_off_to_its_end(node: NodeUnderTest) -> None:
    """A megabyte of hidden characters would take a third of a second."""
    hidden = "\u200d" * 20_000
    response = await node.client.post(RELAY, json={"message": hidden + HELLO["message"] * 10_000})
    assert (response.status_code, "post_url" in response.json()) == (200, False)
    ack = (await node.client.post(RELAY, json=HELLO | {"author": hidden[:1_000] + "agent-7"})).json()
    assert (await node.client.get(ack["post_url"])).json()["author"] is None


async def test_a_name_that_could_be_taken_for_another_is_not_shown(node: NodeUnderTest) -> None:
    ack = (await node.client.post(RELAY, json=HELLO | {"author": "\u0410dmin (node operator)"})).json()
    assert (await node.client.get(ack["post_url"])).json()["author"] is None


async def test_of_many_long_fields_nothing_is_shown_that_would_not_pass_by_itself(node: NodeUnderTest) -> None:
    """The more fields there are, the less closely each one beyond the first two is sampled, and one of these payloads
    passes that way.
    """
    english = "The planner hands out small pieces of work and collects the results in a session. "
    foreign = "El servidor funciona de nuevo y todos los agentes recibieron el mensaje de hoy. "
    fields = dict.fromkeys(("title", "body", "goal", "notes", "summary", "task", "input", "output"), english * 4)
    payloads = ({**fields, "content": (english + foreign) * 20 + str(number)} for number in range(1_000))
    response = await node.client.post(RELAY, json=next(filter(payload_is_english, payloads)))
    assert (response.status_code, "post_url" in response.json()) == (200, False)


@pytest.mark.parametrize("author", [None, "", 5, ["planner"]])
async def test_an_author_that_is_no_name_is_not_taken_for_one(node: NodeUnderTest, author: object) -> None:
    ack = (await node.client.post(RELAY, json=HELLO | {"author": author, "agent": "bot-7"})).json()
    assert (await node.client.get(ack["post_url"])).json()["author"] == "bot-7"


async def test_a_message_is_shown_alone_and_before_a_hello(node: NodeUnderTest) -> None:
    sent = {"note": "All is well.", "hello": "Hello there, my friend."}
    for payload, shown in ((sent | HELLO, HELLO["message"]), (sent, sent["hello"])):
        ack = (await node.client.post(RELAY, json=payload)).json()
        assert (await node.client.get(ack["post_url"])).json()["body"] == shown


async def test_of_a_message_that_may_not_be_shown_as_it_is_the_judged_strings_are(node: NodeUnderTest) -> None:
    message = '{"name": "Necesito ayuda urgente", "remark": "All tests passed."}'
    sent = {"message": message, "hello": "Hello there, my friend."}
    ack = (await node.client.post(RELAY, json=sent)).json()
    shown = (await node.client.get(ack["post_url"])).json()["body"]
    assert shown == "Hello there, my friend.\nAll tests passed."


async def test_a_message_of_names_only_shows_them(node: NodeUnderTest) -> None:
    ack = (await node.client.post(RELAY, json={"from": "agent-7", "to": "agent-9", "type": "ping"})).json()
    assert (await node.client.get(ack["post_url"])).json()["body"] == "agent-7\nagent-9\nping"


FRENCH = "Bonjour, je cherche quelqu'un qui peut traduire ce document pour demain matin."
ENGLISH = "Hello, I look for somebody who can translate this document by tomorrow morning."


@pytest.mark.parametrize("public", ["true", "false"])
@pytest.mark.parametrize(
    "twice", [f'"message":"{FRENCH}","message":"{ENGLISH}"', f'"x":{{"message":"{FRENCH}","message":"\\u0022\\u0022"}}']
)
async def test_no_reader_sees_a_member_that_was_not_judged(node: NodeUnderTest, twice: str, public: str) -> None:
    """Otherwise a reader whose parser takes the first of two equally named members would see it."""
    sent = f'{{{twice},"hello":"{ENGLISH}","public":{public}}}'
    ack = await node.client.post(RELAY, content=sent, headers={"content-type": "application/json"})
    assert ack.status_code == 200
    read = await node.client.get(f"{RELAY}/{ack.json()['reference_id']}")
    assert "Bonjour" not in read.text
    assert read.json()["payload"] == json.loads(sent)


@pytest.mark.parametrize("path", [RELAY, "/api/v1/wire/stream"])
async def test_a_text_that_is_json_with_a_name_twice_is_judged_as_a_text(node: NodeUnderTest, path: str) -> None:
    twice = f'{{"message":"{FRENCH}","message":"{ENGLISH}"}}'
    assert (await node.client.post(path, content=twice, headers=TEXT)).status_code == 400
    assert (await node.client.post(RELAY, json={"message": twice})).status_code == 400
