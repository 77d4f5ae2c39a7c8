"""A node of several processes as its clients see it: limits hold across all processes, and the death of one loses no
write.

Every address of 127.0.0.0/8 is a separate client here.
"""

import http.client
import json
import os
import signal
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
import redis

from tests.faults.report import ROWS, Row
from tests.support.effort import FULL
from tests.support.limits import NO_LIMITS_GIVEN
from tests.support.nodes import PATIENCE, NodeProcess
from tests.support.servers import until

HELLO = "Hello, is anybody there who can read this?"
PROXY = "127.0.0.7"
TIMES = 10 if FULL else 1


class Answered:
    """The parts of an answer that the tests need."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self.body = answer.read()

    def json(self) -> Any:
        return json.loads(self.body)


def call(
    node: NodeProcess, method: str, path: str, body: object = None, *, client: str = "127.0.0.1", **headers: str
) -> Answered:
    """Send one request on a new connection. Raises OSError, HTTPException."""
    # A source port that was bound explicitly stays taken for a minute after its connection, and tens of thousands of
    # requests would use up all ports.
    source = None if client == "127.0.0.1" else (client, 0)
    link = http.client.HTTPConnection("127.0.0.1", node.port, timeout=2 * PATIENCE, source_address=source)
    try:
        sent = None if body is None else json.dumps(body)
        lines = {name.replace("_", "-"): value for name, value in headers.items()}
        link.request(method, path, sent, {"content-type": "application/json"} | lines)
        return Answered(link.getresponse())
    finally:
        link.close()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("node") / "data") as node:
        yield node.start(RELAY_TRUSTED_PROXIES=PROXY).ready()


def relay_at_once(node: NodeProcess, count: int, client: str, **headers: str) -> list[Answered]:
    def post(number: int) -> Answered:
        payload = {"message": f"{HELLO} It is number {number}.", "public": False}
        return call(node, "POST", "/api/v1/relay", payload, client=client, **headers)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(post, range(count)))


def test_of_sixty_posts_at_once_from_one_address_ten_are_acknowledged(node: NodeProcess) -> None:
    answers = relay_at_once(node, 60, "127.0.0.2")
    assert Counter(answer.status for answer in answers) == {200: 10, 429: 50}
    left = [answer.headers["ratelimit"].split(";")[1] for answer in answers if answer.status == 200]
    assert sorted(left) == sorted(f"r={number}" for number in range(10))
    for answer in answers:
        assert answer.headers["ratelimit-policy"] == '"relay";q=10;w=60'
        if answer.status == 429:
            assert 1 <= int(answer.headers["retry-after"]) <= 60
            assert answer.headers["x-error-code"] == "limit.exceeded"


def test_an_address_that_a_client_claims_to_have_gains_it_nothing(node: NodeProcess) -> None:
    statuses: list[int] = []
    for number in range(12):
        claimed = f"198.51.100.{number}"
        payload = {"message": f"{HELLO} It is number {number}.", "public": False}
        spoofed = {"x_forwarded_for": claimed, "forwarded": f"for={claimed}", "x_real_ip": claimed}
        statuses.append(call(node, "POST", "/api/v1/relay", payload, client="127.0.0.3", **spoofed).status)
    assert statuses == [200] * 10 + [429] * 2


def test_behind_a_trusted_proxy_the_hop_that_it_added_counts(node: NodeProcess) -> None:
    def statuses(*hops: str) -> Counter[int]:
        return Counter(answer.status for hop in hops for answer in relay_at_once(node, 6, PROXY, x_forwarded_for=hop))

    assert statuses("198.51.100.1", "198.51.100.2") == {200: 12}
    # The client itself wrote everything to the left of the last hop.
    assert statuses("203.0.113.1, 198.51.100.3", "203.0.113.2, 198.51.100.3") == {200: 10, 429: 2}
    # A whole IPv6 /64 counts as one client.
    assert statuses("2001:db8:0:1::1", "2001:db8:0:1:ffff::2") == {200: 10, 429: 2}
    assert statuses("2001:db8:0:2::1") == {200: 6}


class Load:
    """Clients that keep writing, and remember what was acknowledged."""

    CLIENTS = 6

    def __init__(self, node: NodeProcess) -> None:
        self.relayed: list[tuple[str, str]] = []
        self.threads: list[str] = []
        self.lines: list[list[tuple[int, str]]] = []
        self.sessions: list[str] = []
        self.refused = 0
        self._node = node
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(self.CLIENTS)
        self._running: list[Future[None]] = []

    def __enter__(self) -> "Load":
        for number in range(self.CLIENTS):
            self.sessions.append(call(self._node, "POST", "/api/v1/sessions").json()["session_id"])
            self.lines.append([])
            self._running.append(self._pool.submit(self._write, number))
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown()

    def result(self) -> None:
        """Raise the exception of a client that failed."""
        for future in self._running:
            future.result()

    @property
    def acknowledged(self) -> int:
        return len(self.relayed) + len(self.threads) + sum(map(len, self.lines))

    def goes_on(self) -> None:
        """Return once many more writes of every kind have been acknowledged."""
        before = (len(self.relayed), len(self.threads), self.acknowledged)
        until(
            lambda: (
                len(self.relayed) > before[0] + 10
                and len(self.threads) > before[1] + 10
                and self.acknowledged > before[2] + 60
            ),
            "the load goes on",
            2 * PATIENCE,
        )

    def _write(self, number: int) -> None:
        for turn in range(10_000):
            if self._stop.is_set():
                return
            text = f"{HELLO} This is turn {turn} of client {number}."
            relayed = self._kept("/api/v1/relay", {"message": text, "public": False})
            if relayed:
                self.relayed.append((relayed["reference_id"], text))
            line = self._kept(f"/api/v1/sessions/{self.sessions[number]}/messages", {"body": text})
            if line:
                self.lines[number].append((line["seq"], text))
            thread = self._kept("/api/v1/board", {"title": f"Turn {turn} of client {number}", "body": text})
            if thread:
                self.threads.append(thread["id"])

    def _kept(self, path: str, body: object) -> Any:
        """Repeat one write under its key until it is acknowledged, and return the acknowledgement."""
        key = str(uuid.uuid4())
        while not self._stop.is_set():
            try:
                answer = call(self._node, "POST", path, body, idempotency_key=key)
            except (OSError, http.client.HTTPException):
                continue  # the process died before it answered
            if answer.status in {200, 201}:
                return answer.json()
            if answer.status != 503:
                raise AssertionError(f"{path} answered {answer.status} {answer.body[:200]}")
            self.refused += 1
        return None


def test_no_death_of_a_process_loses_what_was_acknowledged(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        node.start(**NO_LIMITS_GIVEN).ready()
        with Load(node) as load:
            load.goes_on()
            for _ in range(TIMES):
                os.kill(node.web_process(2), signal.SIGKILL)
                load.goes_on()
                kill_and_replace(node, "worker")
                load.goes_on()
                kill_and_replace(node, "redis")
                load.goes_on()
        load.result()
        check(node, load)
    ROWS.append(Row("web, worker, embedded Redis killed (-9)", 3 * TIMES, load.acknowledged, load.refused, None, 0, 0))


def kill_and_replace(node: NodeProcess, child: str) -> None:
    """Kill a child of the supervisor, and return once the supervisor has started another."""
    killed = node.child(child)
    os.kill(killed, signal.SIGKILL)
    until(lambda: node.child(child) != killed, f"another {child}")


def check(node: NodeProcess, load: Load) -> None:
    """Check that everything acknowledged is there, once."""
    for message, text in load.relayed:
        assert read(node, f"/api/v1/relay/{message}").json()["payload"]["message"] == text
    for session, lines in zip(load.sessions, load.lines, strict=True):
        kept = all_lines(node, session)
        assert [seq for seq, _ in kept] == list(range(1, len(kept) + 1))
        assert set(lines) <= set(kept)
        assert len({body for _, body in kept}) == len(kept)
    for thread in load.threads:
        assert read(node, f"/api/v1/board/{thread}").status == 200
    # A process that died may have left the update of the list to the worker, and a worker that died to the next one.
    until(lambda: set(load.threads) <= listed(node), "all threads are listed", 3 * PATIENCE)


def read(node: NodeProcess, path: str) -> Answered:
    """Repeat a read until a process answers that has found Redis again. Another process may have taken writes
    earlier.
    """
    answers: list[Answered] = []

    def is_answered() -> bool:
        answers.append(call(node, "GET", path))
        return answers[-1].status != 503

    until(is_answered, f"an answer to {path}")
    return answers[-1]


def all_lines(node: NodeProcess, session: str) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    while True:
        since = found[-1][0] if found else 0
        page = read(node, f"/api/v1/sessions/{session}/messages?limit=100&since_seq={since}").json()["lines"]
        if not page:
            return found
        found += [(line["seq"], line["body"]) for line in page]


def listed(node: NodeProcess) -> set[str]:
    found: set[str] = set()
    offset = 0
    while page := call(node, "GET", f"/api/v1/board?limit=100&offset={offset}").json()["threads"]:
        found |= {thread["id"] for thread in page}
        offset += 100
    return found


def test_a_node_that_is_told_to_stop_answers_the_reads_it_holds(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        node.start().ready()
        sessions = [call(node, "POST", "/api/v1/sessions").json()["session_id"] for _ in range(8)]
        with ThreadPoolExecutor(len(sessions)) as pool:
            held = [pool.submit(call, node, "GET", f"/api/v1/sessions/{one}/messages?wait=30") for one in sessions]
            until(lambda: waited_for(node, sessions) == len(sessions), "all reads are held")
            node.signal(signal.SIGTERM)
            assert node.wait() == 0
            answers = [one.result() for one in held]
    assert [(answer.status, answer.json()["lines"]) for answer in answers] == [(200, [])] * len(sessions)


def waited_for(node: NodeProcess, sessions: list[str]) -> int:
    """Return how many of the sessions the processes listen to. Other channels, such as those of a worker, do
    not count.
    """
    path = node.folder / "redis" / "redis.sock"
    with redis.Redis(unix_socket_path=str(path), socket_timeout=PATIENCE) as store:
        heard = cast("list[bytes]", store.execute_command("PUBSUB", "SHARDCHANNELS"))  # pyright: ignore[reportUnknownMemberType]
    return sum(any(each in channel.decode() for channel in heard) for each in sessions)
