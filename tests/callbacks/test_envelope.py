"""The webhook message."""

import json
from base64 import b64decode

import msgspec
import pytest

from node.callbacks.envelope import MAX_BODY, Envelope
from node.sign.node_key import NodeKey

KEY = NodeKey.generate()
AT = 1767225605_123
REPLY = {"thread_id": "t", "seq": 1, "url": "http://node.example/board/t"}
TASK = {"task_id": "t", "attempt": 1, "url": "http://node.example/api/v1/tasks/t"}
LINE = {"session_id": "s", "seq": 1, "url": ""}


def test_the_body_says_what_happened_when_and_for_whom():
    envelope = Envelope.of("evt_1", "board.reply", AT, REPLY, host="agent.example")
    assert json.loads(envelope.body) == {
        "type": "board.reply",
        "timestamp": "2026-01-01T00:00:05.123Z",
        "data": REPLY | {"callback_host": "agent.example"},
    }


def test_the_body_can_not_be_taken_for_a_post_by_another_node():
    envelope = Envelope.of("evt_1", "relay.reply", AT, REPLY, host="agent.example")
    assert not {"body", "message", "title", "hello"} & json.loads(envelope.body).keys()


def test_every_attempt_is_signed_anew_under_the_same_id():
    envelope = Envelope.of("evt_1", "task.claimed", AT, TASK, host="agent.example")
    for now in (1767225605.9, 1767229205.0):
        headers = dict(envelope.headers(KEY, now))
        assert headers[b"webhook-id"] == b"evt_1"
        assert headers[b"webhook-timestamp"] == str(int(now)).encode()
        version, _, signature = headers[b"webhook-signature"].partition(b",")
        assert version == b"v1a"
        signed = b".".join((headers[b"webhook-id"], headers[b"webhook-timestamp"], envelope.body))
        assert KEY.public.verifies(signed, b64decode(signature))


def test_an_event_of_20_kb_is_too_large():
    room = MAX_BODY - len(Envelope.of("e", "session.line", AT, LINE, host="a.example").body)
    assert Envelope.of("e", "session.line", AT, LINE | {"url": "u" * (room - 1)}, host="a.example")
    with pytest.raises(ValueError, match="the event takes 20000 bytes"):
        Envelope.of("e", "session.line", AT, LINE | {"url": "u" * room}, host="a.example")


@pytest.mark.parametrize("message_id", ["", "1700-0.1", "a b", "a\r\nX: y", "é", "a" * 129])
def test_an_id_has_no_dots_and_nothing_a_header_could_not_carry(message_id: str):
    with pytest.raises(ValueError, match="webhook id"):
        Envelope.of(message_id, "board.reply", AT, REPLY, host="agent.example")


def test_what_is_not_published_is_not_sent():
    with pytest.raises(msgspec.ValidationError, match="missing required field `attempt`"):
        Envelope.of("evt_1", "task.claimed", AT, {"task_id": "t", "url": "u"}, host="agent.example")
    body = Envelope.of("evt_1", "task.claimed", AT, TASK | {"claim_token": "secret"}, host="agent.example").body
    assert b"secret" not in body
