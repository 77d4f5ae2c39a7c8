"""Creates the sessions, tasks and threads that scenarios need on the node, and makes requests on them."""

import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from bench.client import Call
from bench.lab import Lab
from bench.load import Calls
from bench.payload import Template, encoded, paragraph, relay_body, sentence, sentence_bytes
from bench.server import Server, Unfit

_relay = Template("POST", "/api/v1/relay")
_session = Template("POST", "/api/v1/sessions")
_task = Template("POST", "/api/v1/tasks")
_thread = Template("POST", "/api/v1/board")

SESSION_BODY = b'{"ttl_seconds":86400}'

T = TypeVar("T")


class Created(msgspec.Struct):
    """The fields that loads need from an answer about something created or claimed."""

    id: str = ""
    session_id: str = ""
    claim_token: str = ""


def created(body: bytes) -> Created:
    """Decode an answer."""
    return msgspec.json.decode(body, type=Created)


def in_turn(requests: Sequence[bytes]) -> Calls:
    """Repeat the same requests in turn."""
    turn = itertools.cycle(requests)
    return lambda _index: Call(next(turn))


def must_say(words: bytes) -> Callable[[int, bytes], None]:
    """Return a callback that raises Unfit, which ends the measurement, for a 200 whose body does not have `words`."""

    def answered(status: int, body: bytes) -> None:
        if status == 200 and words not in body:
            raise Unfit(f"answered 200 without {words.decode()}: {body[:300]!r}")

    return answered


def relay_messages(lab: Lab, public: bool = True) -> Calls:
    """Relay messages, all different."""
    acknowledged = must_say(b'"acknowledged"')  # a message that is taken for a loop gets a 200 with an empty body
    return lambda _index: Call(_relay(relay_body(next(lab.numbers), public)), "relay", answered=acknowledged)


def threads(lab: Lab, ids: list[str] | None = None) -> Calls:
    """New board threads of four sentences."""
    keep = _keep(ids)

    def call(_index: int) -> Call:
        number = next(lab.numbers)
        body = encoded({"title": sentence(number), "body": paragraph(number), "author": f"agent-{number % 100}"})
        return Call(_thread(body), "post", (201,), keep)

    return call


def session_calls(ids: list[str] | None = None) -> Calls:
    """New sessions, whose TTL is longer than any measurement."""
    keep = _keep(ids)
    return lambda _index: Call(_session(SESSION_BODY), "", (201,), keep)


def task_calls(lab: Lab, ids: list[str] | None = None) -> Calls:
    """New work contracts."""
    keep = _keep(ids)

    def call(_index: int) -> Call:
        number = next(lab.numbers)
        body = encoded({"publisher_id": f"publisher-{number % 100}", "title": sentence(number)})
        return Call(_task(body), "offer", (201,), keep)

    return call


async def sessions(lab: Lab, server: Server, count: int) -> list[str]:
    """Open `count` sessions and return their ids."""
    ids: list[str] = []
    await lab.fill(server, session_calls(ids), count, "sessions")
    return ids


async def tasks(lab: Lab, server: Server, count: int) -> list[str]:
    """Offer `count` work contracts and return their ids."""
    ids: list[str] = []
    await lab.fill(server, task_calls(lab, ids), count, "tasks")
    return ids


def kept(made: list[T], kind: type[T]) -> Callable[[int, bytes], None]:
    """Return a callback that decodes the body of each 201 as `kind` and appends it to `made`."""

    def answered(status: int, body: bytes) -> None:
        if status == 201:
            made.append(msgspec.json.decode(body, type=kind))

    return answered


def _keep(ids: list[str] | None) -> Callable[[int, bytes], None] | None:
    """Return a callback that appends the id from each 201 to `ids`; None if `ids` is None."""

    def answered(status: int, body: bytes) -> None:
        if status == 201 and ids is not None:
            made = created(body)
            ids.append(made.session_id or made.id)

    return None if ids is None else answered


class Sessions:
    """Requests that send lines to, and poll them from, a set of sessions in turn."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = ids
        self.last = [0] * len(ids)  # highest acknowledged seq of each session
        self._paths = [f"/api/v1/sessions/{each}/messages" for each in ids]
        self._send = [Template("POST", path) for path in self._paths]

    def send(self, number: int) -> Call:
        at = number % len(self.ids)
        line = b'{"body":"%b","author":"agent-%d"}' % (sentence_bytes(number), number % 100)

        def answered(status: int, body: bytes) -> None:
            if status in {200, 201}:
                self.last[at] = max(self.last[at], msgspec.json.decode(body, type=_Sent).seq)

        return Call(self._send[at](line), "send", (200, 201), answered)

    def poll(self, number: int, behind: int = 1, wait: int = 0) -> Call:
        """Return a poll that finds the newest `behind` lines; `wait` is in seconds."""
        at = number % len(self.ids)
        query = f"since_seq={max(0, self.last[at] - behind)}" + (f"&wait={wait}" if wait else "")
        wire = f"GET {self._paths[at]}?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        return Call(wire.encode("ascii"), "poll")


class _Sent(msgspec.Struct):
    seq: int
