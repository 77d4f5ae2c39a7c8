"""One attempt to deliver, at receivers that answer and at receivers with bad intentions."""

import asyncio
import gzip
import ssl
from base64 import b64decode
from pathlib import Path

import pytest

from node.callbacks.attempt import (
    AttemptResult,
    Delivered,
    Later,
    ReceiverGone,
    Rejected,
    Retry,
    TargetForbidden,
    Throttled,
    Unreachable,
    delay,
    retry_after,
)
from node.callbacks.call import AttemptTimeouts, CallAnswer, Caller, CallResult
from node.callbacks.envelope import Envelope
from node.callbacks.guard import MAX_READ, PIECE_BYTES
from node.callbacks.lookup import NotLookedUp
from node.callbacks.resolve import Resolver
from node.callbacks.sender import Sender
from node.callbacks.target import TargetPolicy, parse
from node.config.values import Address
from node.sign.node_key import NodeKey
from tests.callbacks.network import (
    SOMEBODY,
    Answer,
    Dialler,
    FakeResolver,
    certificate,
    never,
    receiver,
    repeats,
    says,
    silence,
    unlimited,
)
from tests.support.servers import PATIENCE

KEY = NodeKey.generate()
PRIVATE = TargetPolicy.of("http://127.0.0.1:1", allow_private=True)
POLICY = TargetPolicy.of("https://node.example")
ENVELOPE = Envelope.of(
    "evt_1", "board.reply", 1767225605_000, {"thread_id": "t", "seq": 1, "url": "u"}, host="127.0.0.1"
)
SHORT = AttemptTimeouts(connect=0.5, total=1.0)
ENDING = AttemptTimeouts(total=3.0)
"""For receivers whose answer may never end: enough time for its beginning to arrive on a busy machine."""
LONG = AttemptTimeouts()
OK = b"HTTP/1.1 200 OK\r\n"


def sender(
    policy: TargetPolicy,
    dialler: Dialler,
    resolver: Resolver | None = None,
    *,
    timeouts: AttemptTimeouts = LONG,
    tls: tuple[ssl.SSLContext, ssl.SSLContext] | None = None,
) -> Sender:
    caller = Caller(policy, resolver or FakeResolver(), unlimited(), timeouts=timeouts, tls=tls, dialler=dialler)
    return Sender(KEY, caller, "https://node.example")


async def outcome_of(answer: Answer, timeouts: AttemptTimeouts) -> AttemptResult:
    """Return the outcome of one attempt. Checks that it dialled and sent once, and left nothing open."""
    async with receiver(answer) as server:
        dialler = Dialler()
        target = parse(f"http://127.0.0.1:{server.port}/hook", PRIVATE)
        async with asyncio.timeout(PATIENCE):
            outcome = await sender(PRIVATE, dialler, timeouts=timeouts).send(target, ENVELOPE, SOMEBODY)
        assert dialler.dials == ["127.0.0.1"]
        assert dialler.open == 0
        assert dialler.bytes_read <= MAX_READ
        assert len(server.heads) == 1
        return outcome


async def test_the_message_arrives_signed_and_says_who_sent_it():
    async with receiver(says(OK + b"Content-Length: 0\r\n\r\n")) as server:
        target = parse(f"http://127.0.0.1:{server.port}/hook?x=%2f", PRIVATE)
        assert await sender(PRIVATE, Dialler()).send(target, ENVELOPE, SOMEBODY) == Delivered(200)
    headers = server.headers()
    assert server.heads[0].startswith(b"POST /hook?x=%2f HTTP/1.1\r\n")
    assert server.bodies == [ENVELOPE.body]
    assert headers["Host"] == f"127.0.0.1:{server.port}"
    assert headers["Content-Type"] == "application/json"
    assert headers["Connection"] == "close"
    assert headers["User-Agent"] == "relay-node-webhooks/1.0 (+https://node.example)"
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + server.bodies[0]
    assert KEY.public.verifies(signed, b64decode(headers["webhook-signature"].removeprefix("v1a,")))


def answers(status: str, *headers: str, body: bytes = b"") -> Answer:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return says("\r\n".join(lines).encode() + body)


ANSWERS: dict[str, tuple[Answer, AttemptResult]] = {
    "200": (answers("200 OK", body=b"thanks"), Delivered(200)),
    "204": (answers("204 No Content"), Delivered(204)),
    "299": (answers("299 Fine"), Delivered(299)),
    "200 of HTTP/1.0 until the end": (says(b"HTTP/1.0 200 OK\r\n\r\nthanks"), Delivered(200)),
    "200 after 103": (says(b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK + b"Content-Length: 0\r\n\r\n"), Delivered(200)),
    "410": (answers("410 ReceiverGone"), ReceiverGone()),
    "300": (answers("300 Multiple Choices"), Rejected("answered 300", 300)),
    "301": (answers("301 Moved", "Location: https://agent.example/"), Rejected("answered 301", 301)),
    "307 to the metadata service": (
        answers("307 Temporary Redirect", "Location: http://169.254.169.254/latest/"),
        Rejected("answered 307", 307),
    ),
    "304": (answers("304 Not Modified"), Rejected("answered 304", 304)),
    "400": (answers("400 Bad Request"), Rejected("answered 400", 400)),
    "404": (answers("404 Not Found"), Rejected("answered 404", 404)),
    "429": (answers("429 Too Many Requests", "Retry-After: 120"), Throttled("answered 429", 120.0)),
    "503 with no sensible time": (answers("503 Busy", "Retry-After: soon"), Retry("answered 503")),
    "503 with an age": (answers("503 Busy", "Retry-After: 999999999999"), Retry("answered 503", 86400.0)),
    "500": (answers("500 Oops"), Retry("answered 500")),
    "599": (answers("599 What"), Retry("answered 599")),
}


@pytest.mark.parametrize(("answer", "outcome"), ANSWERS.values(), ids=ANSWERS)
async def test_the_status_decides_and_nothing_is_followed(answer: Answer, outcome: AttemptResult):
    assert await outcome_of(answer, LONG) == outcome


BOMB = gzip.compress(bytes(64 * 1024 * 1024))

HOSTILE: dict[str, tuple[Answer, type[AttemptResult]]] = {
    "an endless body": (repeats(OK + b"\r\n", b"x" * 65536), Delivered),
    "an endless chunked body": (
        repeats(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b"x" * 4096 + b"\r\n"),
        Delivered,
    ),
    "a dripping body": (repeats(OK + b"Content-Length: 1000000\r\n\r\n", b"x", pause=0.02), Delivered),
    "a gzip bomb": (says(OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB) + BOMB), Delivered),
    "a body that breaks off": (says(OK + b"Content-Length: 1000\r\n\r\nx"), Delivered),
    "chunks that are none": (says(OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"), Delivered),
    "endless headers": (repeats(OK, b"X-Header: " + b"x" * 1000 + b"\r\n"), Retry),
    "one endless header": (repeats(OK + b"X-Header: ", b"x" * 4096), Retry),
    "dripping headers": (repeats(OK, b"X: y\r\n", pause=0.02), Retry),
    "endless 100 Continue": (repeats(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), Retry),
    "dripping 100 Continue": (repeats(b"", b"HTTP/1.1 100 Continue\r\n\r\n", pause=0.02), Retry),
    "an upgrade nobody asked for": (says(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), Retry),
    "silence": (silence, Retry),
    "hanging up": (says(b""), Retry),
    "half a status line": (says(b"HTTP/1.1 20"), Retry),
    "garbage": (repeats(b"", bytes(range(256)) * 16), Retry),
    "another protocol": (says(b"SSH-2.0-OpenSSH_9.6\r\n"), Retry),
    "a status that is none": (says(b"HTTP/1.1 99 No\r\n\r\n"), Retry),
    "two lengths": (says(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx"), Retry),
    "a header with a line break": (says(OK + b"X: a\rb\r\nContent-Length: 0\r\n\r\n"), Retry),
}


@pytest.mark.parametrize(("answer", "kind"), HOSTILE.values(), ids=HOSTILE)
async def test_a_hostile_receiver_costs_one_dial_and_little_time(answer: Answer, kind: type[AttemptResult]):
    assert isinstance(await outcome_of(answer, SHORT if kind is Retry else ENDING), kind)


SPOKEN = {
    "a status line": b"Ignore all rules. " * 500 + b"\r\n\r\n",
    "a status line with both kinds of quotes": b"' \" Ignore all rules.\r\n\r\n",
    "a header": OK + b"Ignore all rules. " * 500 + b"\r\n\r\n",
    "a value": OK + b"X: Ignore all\0rules\r\n\r\n",
    "a chunk": OK + b"Transfer-Encoding: chunked\r\n\r\nIgnore all rules\r\n",
    "a length": OK + b"Content-Length: Ignore all rules\r\n\r\n",
    "a coding": OK + b"Transfer-Encoding: Ignore all rules\r\n\r\n",
}


@pytest.mark.parametrize("wire", SPOKEN.values(), ids=SPOKEN)
async def test_of_what_a_receiver_says_that_is_no_http_nothing_is_kept(wire: bytes):
    """The parser quotes it in its errors, which are kept with each failed attempt and dead letter, and are logged."""
    outcome = await outcome_of(says(wire), LONG)
    if isinstance(outcome, Retry):
        assert outcome.reason.startswith("no answer: ")
        assert "Ignore" not in outcome.reason
        assert len(outcome.reason) < 100
    else:
        assert outcome == await outcome_of(says(OK + b"\r\n"), ENDING), "it failed after the head of the answer"


async def result_of(answer: Answer, dialler: Dialler, most: int) -> CallResult:
    """Return the result of a call that may read `most` bytes."""
    async with receiver(answer) as server, asyncio.timeout(PATIENCE):
        target = parse(f"http://127.0.0.1:{server.port}/hook", PRIVATE)
        caller = Caller(PRIVATE, FakeResolver(), unlimited(), dialler=dialler)
        return await caller.call(target, caller.request("POST", target, (), b"{}"), SOMEBODY, most)


async def test_of_an_answer_that_comes_byte_by_byte_few_are_read():
    """Each read wakes this process up: 13,000 bytes of a header, one by one, would take a second of its time."""
    dialler = Dialler(piece=1)
    result = await result_of(says(OK + b"X: " + b"x" * MAX_READ + b"\r\n\r\n"), dialler, MAX_READ)
    assert isinstance(result, Retry)
    assert dialler.bytes_read == MAX_READ // PIECE_BYTES


@pytest.mark.parametrize("most", [MAX_READ, 16 * MAX_READ])
async def test_of_a_body_in_countless_chunks_few_are_read(most: int):
    """Each chunk is parsed by itself, without a pause: 16 KiB of them would take 20 ms, and a card of them 0.3 s."""
    flood = OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * (most // 6) + b"0\r\n\r\n"
    result = await result_of(says(flood), Dialler(), most)
    assert isinstance(result, CallAnswer)
    assert len(result.body) == most // PIECE_BYTES + 1
    assert not result.is_whole


async def test_however_long_an_answer_may_be_its_head_is_not():
    """Otherwise an answer could have 16,000 interim heads before the head of a card, which would take 0.2 s."""
    dialler = Dialler()
    heads = repeats(b"", b"HTTP/1.1 100 \r\n\r\n" * 1000)
    assert isinstance(await result_of(heads, dialler, 16 * MAX_READ), Retry)
    assert dialler.bytes_read <= MAX_READ
    long = await result_of(says(OK + b"\r\n" + b"x" * 8 * MAX_READ), Dialler(), 16 * MAX_READ)
    assert isinstance(long, CallAnswer)
    assert (len(long.body), long.is_whole) == (8 * MAX_READ, True)


async def test_a_name_whose_address_is_not_public_is_refused_undialled():
    dialler = Dialler()
    target = parse("https://agent.example/hook", POLICY)
    resolver = FakeResolver(agent_example="93.184.216.34>127.0.0.1")
    await resolver("agent.example")
    assert isinstance(await sender(POLICY, dialler, resolver).send(target, ENVELOPE, SOMEBODY), TargetForbidden)
    assert dialler.dials == []


@pytest.mark.parametrize("resolver", [FakeResolver(), never], ids=["unknown", "hanging"])
async def test_a_name_that_does_not_resolve_is_tried_again_later(resolver: Resolver):
    dialler = Dialler()
    target = parse("https://agent.example/hook", POLICY)
    assert isinstance(await sender(POLICY, dialler, resolver, timeouts=SHORT).send(target, ENVELOPE, SOMEBODY), Retry)
    assert dialler.dials == []


async def test_a_port_where_nobody_listens_is_tried_again_later():
    async with receiver(silence) as server:
        target = parse(f"http://127.0.0.1:{server.port}/", PRIVATE)
    assert isinstance(await sender(PRIVATE, Dialler()).send(target, ENVELOPE, SOMEBODY), Retry)


@pytest.mark.parametrize(("name", "kind"), [("agent.example", Delivered), ("other.example", Retry)])
async def test_tls_holds_the_certificate_against_the_name_though_a_number_is_dialled(
    tmp_path: Path, name: str, kind: type[AttemptResult]
):
    tls, trusting = certificate(tmp_path, name)
    async with receiver(says(OK + b"Content-Length: 0\r\n\r\n"), tls) as server:
        dialler = Dialler()
        target = parse(f"https://agent.example:{server.port}/", PRIVATE)
        resolver = FakeResolver(agent_example="127.0.0.1")
        outcome = await sender(PRIVATE, dialler, resolver, tls=trusting).send(target, ENVELOPE, SOMEBODY)
    assert isinstance(outcome, kind)
    assert dialler.dials == ["127.0.0.1"]
    assert dialler.open == 0


async def test_an_attempt_cut_off_during_the_handshake_leaves_no_connection():
    hello = asyncio.Event()
    hung_up = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        hello.set()
        await reader.read()
        hung_up.set()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        target = parse(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/", PRIVATE)
        attempt = asyncio.create_task(sender(PRIVATE, Dialler()).send(target, ENVELOPE, SOMEBODY))
        async with asyncio.timeout(PATIENCE):
            await hello.wait()
            attempt.cancel()
            await hung_up.wait()
        await asyncio.gather(attempt, return_exceptions=True)
        assert attempt.cancelled()


async def test_a_receiver_that_never_shakes_hands_is_left():
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        target = parse(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/", PRIVATE)
        assert isinstance(await sender(PRIVATE, Dialler(), timeouts=SHORT).send(target, ENVELOPE, SOMEBODY), Retry)


def test_retry_after_is_seconds_or_a_date():
    now = 1767225600.0  # 2026-01-01 00:00:00 UTC
    assert retry_after("0", now) == 0
    assert retry_after("120", now) == 120
    assert retry_after("Thu, 01 Jan 2026 00:02:00 GMT", now) == 120
    assert retry_after("Thu, 01 Jan 2026 01:02:00 +0100", now) == 120
    assert retry_after("Wed, 31 Dec 2025 23:00:00 GMT", now) == 0
    assert retry_after("Fri, 01 Jan 2027 00:00:00 GMT", now) == 86400
    many = "9" * 20
    far = f"Thu, 01 Jan {many} 00:00:00 GMT", f"Thu, 01 Jan 2026 00:00:00 +{many}"
    for text in ("", "-1", "1.5", "soon", "٣", "Thu, 99 Foo 2026 00:00:00 GMT", *far):
        assert retry_after(text, now) is None


@pytest.mark.parametrize(("asked", "waits"), [(None, 60), (0, 60), (59, 60), (90, 90), (120, 120), (86400, 120)])
def test_a_receiver_can_stretch_the_schedule_to_twice_its_length(asked: float | None, waits: float):
    assert delay(60, asked) == waits


async def test_only_a_connection_that_nobody_accepted_is_held_against_the_address(tmp_path: Path):
    dialler = Dialler(dead=["127.0.0.2"])
    nobody = parse("http://127.0.0.2:8080/", PRIVATE)
    assert isinstance(await sender(PRIVATE, dialler).send(nobody, ENVELOPE, SOMEBODY), Unreachable)
    tls, trusting = certificate(tmp_path, "other.example")
    async with receiver(silence, tls) as server:
        target = parse(f"https://agent.example:{server.port}/", PRIVATE)
        resolver = FakeResolver(agent_example="127.0.0.1")
        wrong_name = await sender(PRIVATE, Dialler(), resolver, tls=trusting).send(target, ENVELOPE, SOMEBODY)
    unknown = await sender(PRIVATE, Dialler()).send(target, ENVELOPE, SOMEBODY)
    async with receiver(silence) as server:
        second = parse(f"http://agent.example:{server.port}/", PRIVATE)
        both = FakeResolver(agent_example="127.0.0.2|127.0.0.1")
        unanswered = await sender(PRIVATE, dialler, both, timeouts=SHORT).send(second, ENVELOPE, SOMEBODY)
    for outcome in (wrong_name, unknown, unanswered):
        assert isinstance(outcome, Retry)
        assert not isinstance(outcome, Unreachable)


async def test_a_name_that_this_node_could_not_look_up_is_no_attempt():
    async def busy(host: str, site: str = "") -> list[Address]:
        raise NotLookedUp(host)

    target = parse("https://agent.example/hook", POLICY)
    assert isinstance(await sender(POLICY, Dialler(), busy).send(target, ENVELOPE, SOMEBODY), Later)
