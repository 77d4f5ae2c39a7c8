"""Procedures and iterations with answers that a real node gives seldom: each transport here has them prepared."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from relay_client import Refused, Relay
from relay_client.steps import Answer, NoAnswer, Send
from relay_client.transport import Pieces

NODE = "http://node.example"
LOST = NoAnswer("reset", unsent=False)
TAKEN_BY_S3 = Answer(412, {}, b"<Error><Code>PreconditionFailed</Code></Error>")


class Prepared:
    """A transport that gives these answers in turn; a mapping is the JSON of a 200."""

    def __init__(self, *answers: Mapping[str, Any] | Answer | NoAnswer) -> None:
        self._answers = iter(answers)
        self.requests: list[Send] = []

    def send(self, request: Send) -> Answer:
        self.requests.append(request)
        answer = next(self._answers)
        if isinstance(answer, NoAnswer):
            raise answer
        return answer if isinstance(answer, Answer) else Answer(200, {}, json.dumps(answer).encode())

    def open(self, request: Send) -> tuple[Answer, Pieces]:
        raise AssertionError(f"no stream is prepared for {request.url}")

    def close(self) -> None:
        pass

    def since(self) -> list[str]:
        """The `since_seq` of each request."""
        return [parse_qs(urlsplit(request.url).query)["since_seq"][0] for request in self.requests]


def thread(status: str, reached: int, *seqs: int) -> dict[str, Any]:
    return {"status": status, "replies": [{"seq": seq} for seq in seqs], "next_since_seq": reached}


def test_replies_go_on_after_those_that_are_hidden() -> None:
    node = Prepared(thread("open", 100), thread("closed", 102, 101), thread("closed", 103), thread("closed", 103))
    with Relay(NODE, transport=node) as relay:
        assert [reply["seq"] for reply in relay.board.replies("1")] == [101]
    assert node.since() == ["0", "100", "102", "103"]


def test_who_is_ahead_of_an_inbox_that_lost_messages_goes_back_to_its_last() -> None:
    page = {"waiting": 1, "bytes": 2, "oldest_at": None, "epoch": "1"}
    node = Prepared(
        {**page, "messages": [{"seq": 7}], "next_since_seq": 7},
        {**page, "messages": [], "next_since_seq": 5},
        {**page, "messages": [{"seq": 6}], "next_since_seq": 6},
    )
    with Relay(NODE, transport=node) as relay:
        messages = relay.inboxes.messages("address", "token", settle=False)
        assert [next(messages)["seq"] for _ in range(2)] == [7, 6]
    assert node.since() == ["0", "7", "5"]


DATA = b"name\nAda\n"
REGISTERED = {"id": "1", "upload_url": "http://s3.example/1", "upload_headers": {"If-None-Match": "*"}}


def manifest(status: str) -> dict[str, Any]:
    return {"id": "1", "status": status, "digest_sha256": sha256(DATA).hexdigest()}


def test_an_upload_to_s3_whose_answer_was_lost_has_been_done() -> None:
    node = Prepared(REGISTERED, LOST, TAKEN_BY_S3, manifest("available"))
    with Relay(NODE, transport=node) as relay:
        assert relay.artifacts.upload(DATA, "desk")["status"] == "available"


def test_an_upload_that_is_refused_at_once_is_not_taken_for_done() -> None:
    with Relay(NODE, transport=Prepared(REGISTERED, TAKEN_BY_S3)) as relay, pytest.raises(Refused):
        relay.artifacts.upload(DATA, "desk")
