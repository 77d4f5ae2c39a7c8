"""Procedures and iterations with answers that a real node seldom gives, which the transports here have prepared."""

import gc
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.support.prepared import AsyncPrepared, Clock, Prepared

from relay_client import (
    AsyncRelay,
    Conflict,
    DeadlineExceeded,
    DigestMismatch,
    Limited,
    NotAllowed,
    NotFound,
    Refused,
    Relay,
    RelayError,
    Unavailable,
    Unreachable,
)
from relay_client.resource import Procedure, Resource, Sync
from relay_client.steps import Answer, NoAnswer, Send, Steps
from relay_client.transport import Pieces
from relay_client.worker import Worker

NODE = "http://node.example"
LOST = NoAnswer("reset", unsent=False)
TAKEN_BY_S3 = Answer(412, {}, b"<Error><Code>PreconditionFailed</Code></Error>")


def since(node: Prepared) -> list[str]:
    """Return the `since_seq` of each request."""
    return [parse_qs(urlsplit(request.url).query)["since_seq"][0] for request in node.requests]


def thread(status: str, reached: int, *seqs: int) -> dict[str, Any]:
    return {"status": status, "replies": [{"seq": seq} for seq in seqs], "next_since_seq": reached}


def test_replies_go_on_after_those_that_are_hidden() -> None:
    node = Prepared(thread("open", 100), thread("closed", 102, 101), thread("closed", 103), thread("closed", 103))
    with Relay(NODE, transport=node) as relay:
        assert [reply["seq"] for reply in relay.board.replies("1")] == [101]
    assert since(node) == ["0", "100", "102", "103"]


def test_a_short_page_is_not_taken_for_the_last() -> None:
    """Two contracts of the first page were claimed just before, so the node left them out."""
    listed = [{"id": str(number)} for number in range(70)]
    node = Prepared({"tasks": listed[:48], "total": 70}, {"tasks": listed[48:], "total": 70})
    with Relay(NODE, transport=node) as relay:
        assert list(relay.tasks.all()) == listed
    assert parse_qs(urlsplit(node.requests[1].url).query)["offset"] == ["48"]


def test_what_moves_between_two_pages_is_listed_once() -> None:
    """A new entry at the front of the list has moved the last entry of the first page to the next one."""
    first, second, third = ({"id": str(number)} for number in range(3))
    node = Prepared({"tasks": [first, second], "total": 3}, {"tasks": [second, third], "total": 4})
    with Relay(NODE, transport=node) as relay:
        assert list(relay.tasks.all()) == [first, second, third]


def test_lines_end_with_a_session_that_ends_before_its_first() -> None:
    """Regression: the first request already waited for a line, got 404 when the session ended, and that was raised."""
    page: dict[str, Any] = {"lines": [], "next_since_seq": 0, "epoch": "1"}
    node = Prepared(page, Answer(404, {"x-error-code": "session.gone"}, b"{}"))
    with Relay(NODE, transport=node) as relay:
        assert list(relay.sessions.lines("1")) == []
    assert ["wait" in parse_qs(urlsplit(request.url).query) for request in node.requests] == [False, True]


def test_a_reader_ahead_of_an_inbox_that_lost_messages_goes_back_to_its_last() -> None:
    page = {"waiting": 1, "bytes": 2, "oldest_at": None, "epoch": "1"}
    node = Prepared(
        {**page, "messages": [{"seq": 7}], "next_since_seq": 7},
        {**page, "messages": [], "next_since_seq": 5},
        {**page, "messages": [{"seq": 6}], "next_since_seq": 6},
    )
    with Relay(NODE, transport=node) as relay:
        messages = relay.inboxes.messages("address", "token", settle=False)
        assert [next(messages)["seq"] for _ in range(2)] == [7, 6]
    assert since(node) == ["0", "7", "5"]


def test_the_refusal_of_a_stream_says_what_the_node_said() -> None:
    gone = Answer(404, {"x-error-code": "thread.unknown"}, b'{"error": "There is no such thread."}')
    with Relay(NODE, transport=Prepared(gone)) as relay, pytest.raises(NotFound, match="There is no such thread"):
        next(relay.events.follow("thread:1"))


EVENTS = Answer(200, {"content-type": "application/x-ndjson"}, b'{"id": "c6", "type": "task.offered"}\n')


TOO_OLD = Answer(410, {"x-error-code": "cursor.too_old", "oldest-cursor": "c5"}, b'{"error": "It is too old."}')


def test_events_go_on_after_a_cursor_that_is_too_old_with_the_oldest_there_is() -> None:
    node = Prepared(TOO_OLD, EVENTS)
    with Relay(NODE, transport=node) as relay:
        events = relay.events.follow("tasks", cursor="c1")
        found = [next(events) for _ in range(2)]
        events.close()
    assert found == [{"id": "c5", "type": "reset"}, {"id": "c6", "type": "task.offered"}]
    assert [parse_qs(urlsplit(request.url).query)["cursor"] for request in node.requests] == [["c1"], ["c5"]]
    assert node.is_closed, "no connection outlives the iteration"


async def test_no_connection_outlives_an_asynchronous_iteration_either() -> None:
    node = Prepared(TOO_OLD, EVENTS)
    async with AsyncRelay(NODE, transport=AsyncPrepared(node)) as relay:
        events = relay.events.follow("tasks", cursor="c1")
        found = [await anext(events) for _ in range(2)]
        await events.aclose()
    assert found == [{"id": "c5", "type": "reset"}, {"id": "c6", "type": "task.offered"}]
    assert node.is_closed


async def test_who_awaits_pauses_for_as_long_as_the_node_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("relay_client.client.asyncio.sleep", sleep)
    node = Prepared(LATER, LOST, thread("open", 0))
    async with AsyncRelay(NODE, transport=AsyncPrepared(node)) as relay:
        assert (await relay.board.get("1"))["status"] == "open"
    put_off, backoff = pauses
    assert 7 <= put_off < 8
    assert 0 < backoff <= 0.2


def page_of(field: str, seq: int, epoch: str) -> dict[str, Any]:
    return {field: [{"id": str(seq), "seq": seq}], "next_since_seq": seq, "epoch": epoch, "waiting": 1}


@pytest.mark.parametrize("field", ["lines", "messages"])
def test_what_begins_anew_is_read_from_its_beginning(field: str) -> None:
    """After the node lost data, or the inbox was opened again, entries may have lower numbers."""
    node = Prepared(page_of(field, 7, "1"), page_of(field, 9, "2"), page_of(field, 1, "2"))
    with Relay(NODE, transport=node) as relay:
        found: Any = (
            relay.sessions.lines("1") if field == "lines" else relay.inboxes.messages("a", "token", settle=False)
        )
        assert [next(found)["seq"] for _ in range(2)] == [7, 1]
        found.close()
    assert since(node) == ["0", "7", "0"]


@pytest.mark.parametrize("code", ["inbox.settled", "receipt.unknown"])
def test_a_message_that_is_settled_or_gone_already_ends_no_loop(code: str) -> None:
    refused = Answer(409 if code == "inbox.settled" else 404, {"x-error-code": code}, b"{}")
    node = Prepared(page_of("messages", 1, "1"), refused, page_of("messages", 2, "1"))
    with Relay(NODE, transport=node) as relay:
        messages = relay.inboxes.messages("a", "token")
        assert [next(messages)["seq"] for _ in range(2)] == [1, 2]
        messages.close()


def test_a_message_that_the_node_does_not_let_one_settle_ends_the_loop() -> None:
    refused = Answer(403, {"x-error-code": "inbox.token"}, b"{}")
    with Relay(NODE, transport=Prepared(page_of("messages", 1, "1"), refused)) as relay:
        messages = relay.inboxes.messages("a", "token")
        assert next(messages)["seq"] == 1
        with pytest.raises(NotAllowed):
            next(messages)


DATA = b"name\nAda\n"
REGISTERED = {"id": "1", "upload_url": "http://s3.example/1", "upload_headers": {"If-None-Match": "*"}}


def manifest(status: str) -> dict[str, Any]:
    return {"id": "1", "status": status, "byte_size": len(DATA), "digest_sha256": sha256(DATA).hexdigest()}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("relay_client.client.time", clock)
    return clock


def test_an_upload_to_s3_whose_answer_was_lost_has_succeeded(clock: Clock) -> None:
    node = Prepared(REGISTERED, LOST, TAKEN_BY_S3, manifest("available"))
    with Relay(NODE, transport=node) as relay:
        assert relay.artifacts.upload(DATA, "desk")["status"] == "available"


def test_an_upload_whose_bytes_are_still_being_stored_is_waited_for(clock: Clock) -> None:
    """Regression: the upload was refused as if the bytes were somebody else's."""
    busy = Answer(409, {"x-error-code": "blob.busy"}, b"{}")
    node = Prepared(REGISTERED, LOST, busy, busy, TAKEN_BY_S3, manifest("available"))
    with Relay(NODE, transport=node) as relay:
        assert relay.artifacts.upload(DATA, "desk")["status"] == "available"
    with Relay(NODE, transport=Prepared(REGISTERED, busy)) as relay, pytest.raises(Conflict):
        relay.artifacts.upload(DATA, "desk")


def test_an_upload_that_is_refused_at_once_is_not_taken_for_done() -> None:
    with Relay(NODE, transport=Prepared(REGISTERED, TAKEN_BY_S3)) as relay, pytest.raises(Refused):
        relay.artifacts.upload(DATA, "desk")


LATER = Answer(429, {"retry-after": "7"}, b"")
TRIES = 3
BROKEN = Answer(500, {"retry-after": "²"}, b"")  # `²` is not a number
TOO_FAR = "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"
LED = Answer(307, {"location": "http://s3.example/1"}, b"")
BYTES = Answer(200, {}, DATA)


def test_an_upload_is_tried_again_as_calls_are(clock: Clock) -> None:
    """Pauses last as long as the store asks, or else grow. A 429 with Retry-After does not count as a failed try."""
    node = Prepared(REGISTERED, LATER, LATER, LATER, BROKEN, LOST, Answer(200, {}, b""), manifest("available"))
    with Relay(NODE, transport=node) as relay:
        assert relay.artifacts.upload(DATA, "desk")["status"] == "available"
    *put_off, first, second = clock.pauses
    assert [7 <= pause < 8 for pause in put_off] == [True] * 3
    assert 0 < first <= 0.2 <= second <= 0.4


def test_a_download_is_tried_again_as_calls_are(clock: Clock) -> None:
    node = Prepared(manifest("available"), LED, LATER, LED, BROKEN, LED, LOST, LED, BYTES)
    with Relay(NODE, transport=node, tries=4) as relay:
        assert relay.artifacts.download_bytes("1") == DATA
    put_off, first, second = clock.pauses
    assert 7 <= put_off < 8
    assert 0 < first <= 0.2 <= second <= 0.4


class Torn(Prepared):
    """A transport whose third answer has too many bytes and breaks off."""

    def open(self, request: Send) -> tuple[Answer, Pieces]:
        answer, pieces = super().open(request)
        return answer, self if len(self.requests) == 3 else pieces

    def read(self) -> bytes:
        if self.is_read:
            raise LOST
        self.is_read = True
        return 2 * DATA

    is_read = False


@pytest.mark.parametrize("said", [{"retry-after": TOO_FAR}, {"ratelimit": f'"relay";r={"9" * 5000};t=1'}])
def test_a_number_that_nobody_can_have_meant_is_ignored(clock: Clock, said: dict[str, str]) -> None:
    with Relay(NODE, transport=Prepared(Answer(503, said, b""), thread("open", 0))) as relay:
        assert relay.board.get("1")["status"] == "open"
    assert len(clock.pauses) == 1


def test_nothing_is_left_of_a_download_that_broke_off(clock: Clock) -> None:
    longer = manifest("available") | {"byte_size": 2 * len(DATA)}
    with Relay(NODE, transport=Torn(longer, LED, BYTES, LED, BYTES)) as relay:
        assert relay.artifacts.download_bytes("1") == DATA


def test_a_download_leaves_other_files_alone(tmp_path: Path) -> None:
    """Regression: a download wrote to `<name>.part`, even if that was somebody else's file, and then removed it."""
    (tmp_path / "people.csv.part").write_text("kept")
    with Relay(NODE, transport=Prepared(manifest("available"), LED, BYTES)) as relay:
        relay.artifacts.download("1", tmp_path / "people.csv")
    kept = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert kept == {"people.csv": DATA, "people.csv.part": b"kept"}


def test_other_bytes_than_those_of_the_manifest_are_refused(tmp_path: Path) -> None:
    other = Answer(200, {}, DATA + b"Eve\n")
    with Relay(NODE, transport=Prepared(manifest("available"), LED, other)) as relay, pytest.raises(DigestMismatch):
        relay.artifacts.download_bytes("1")
    with Relay(NODE, transport=Prepared(manifest("available"), LED, other)) as relay, pytest.raises(DigestMismatch):
        relay.artifacts.download("1", tmp_path / "people.csv")
    assert list(tmp_path.iterdir()) == []


class Endless(Prepared):
    """A transport whose streams never end."""

    def open(self, request: Send) -> tuple[Answer, Pieces]:
        return super().open(request)[0], self

    def read(self) -> bytes:
        return DATA


def test_a_download_is_given_up_where_its_manifest_ends(tmp_path: Path) -> None:
    """Regression: an endless download went on until the disk was full."""
    with Relay(NODE, transport=Endless(manifest("available"), LED, BYTES)) as relay, pytest.raises(DigestMismatch):
        relay.artifacts.download("1", tmp_path / "people.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([LOST] * TRIES, Unreachable),
        ([BROKEN] * TRIES, Unavailable),
        ([Answer(507, {}, b"")], Unavailable),
        ([Answer(403, {}, b"")], Refused),
        ([Answer(429, {"retry-after": "120"}, b"")], Limited),
    ],
)
def test_an_upload_is_tried_no_more_often_than_calls_are(
    clock: Clock, answers: list[Answer | NoAnswer], expected: type[Exception]
) -> None:
    with Relay(NODE, transport=Prepared(REGISTERED, *answers), tries=TRIES) as relay, pytest.raises(expected):
        relay.artifacts.upload(DATA, "desk")


class SlowStreams(Prepared):
    """A transport on which each stream takes an hour, and everything else no time."""

    def open(self, request: Send) -> tuple[Answer, Pieces]:
        self.takes = 3600
        try:
            return super().open(request)
        finally:
            self.takes = 0


@pytest.mark.parametrize("failed", [LOST, BROKEN])
def test_the_time_in_which_bytes_move_does_not_count_in_the_deadline(clock: Clock, failed: Answer | NoAnswer) -> None:
    """A transfer of an hour is within the deadline, which covers only the time between tries."""
    stored = Prepared(REGISTERED, failed, Answer(200, {}, b""), manifest("available"), takes=3600, clock=clock)
    with Relay(NODE, transport=stored) as relay:
        relay.carrier.clock = clock.time
        assert relay.artifacts.upload(DATA, "desk")["status"] == "available"
    fetched = SlowStreams(manifest("available"), LED, failed, LED, BYTES, clock=clock)
    with Relay(NODE, transport=fetched) as relay:
        relay.carrier.clock = clock.time
        assert relay.artifacts.download_bytes("1") == DATA
    assert all(request.within for request in fetched.requests)  # a body may take an hour to come, not to begin


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([REGISTERED | {"upload_url": None}], "the time to upload artifact 1 has passed"),
        (
            [REGISTERED, Answer(200, {}, b""), manifest("rejected") | {"reason": "It is plainly a PDF."}],
            "rejected the artifact: It is plainly a PDF",
        ),
    ],
)
def test_an_upload_that_comes_to_nothing_says_why(answers: list[Any], told: str) -> None:
    with Relay(NODE, transport=Prepared(*answers)) as relay, pytest.raises(RelayError, match=told):
        relay.artifacts.upload(DATA, "desk")


def test_a_node_that_is_away_is_waited_for_no_longer_than_asked(clock: Clock) -> None:
    with Relay(NODE, transport=Prepared(LOST, LOST), tries=1) as relay:
        relay.carrier.clock = clock.time
        with pytest.raises(DeadlineExceeded):
            relay.tasks.result("1", within=3.0)
    assert clock.pauses == [3.0]


async def test_a_claim_that_is_not_like_that_of_a_node_leaves_no_renewal_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Regression: asyncio logged the failure of the renewal as an exception that was never retrieved."""
    node = Prepared({"id": "1", "claim_token": "token", "lease_seconds": ["a minute"]}, {})
    async with AsyncRelay(NODE, transport=AsyncPrepared(node)) as relay:
        with pytest.raises(TypeError):
            await Worker(len, "reader", ()).serve(relay)
    gc.collect()
    assert not caplog.records
    assert [urlsplit(request.url).path for request in node.requests][1:] == ["/api/v1/tasks/1/release"]


class Silent(Resource[Sync]):
    """A resource with a procedure that sends no request."""

    @Procedure
    def nothing(self) -> Steps[int]:
        return 3
        yield


def test_a_procedure_may_end_without_a_question() -> None:
    with Relay(NODE, transport=Prepared()) as relay:
        assert Silent(relay).nothing() == 3
