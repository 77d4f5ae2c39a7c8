"""Attacks by which one address may harm all others. Each is an endless series of requests that the node lets through.

After a refusal, a connection pauses briefly before its next request, whatever Retry-After says. The scenario
`overload` measures how a node withstands a plain flood.
"""

import asyncio
import contextlib
import itertools
import random
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import msgspec

from bench.client import Call, Connection, forwarded, request
from bench.entities import Created, created
from bench.lab import Lab
from bench.load import Calls, closed_loop
from bench.neighbours.callbacks import FAILING, Receiver
from bench.payload import PROSE, encoded, prose, sentence
from bench.schedule import now
from bench.server import Server, ask

REFUSED_PAUSE = 0.1  # seconds
MIB = 1024 * 1024

HOSTILE_THREADS, HOSTILE_REPLIES, LONGEST_REPLY = 40, 20, 20_000
SAMPLES, SAMPLE = 12, 160  # evenly spaced windows, and their characters, that a sampling gate would read of a long text
MOST_OBJECTS = 19_000  # JSON objects and lists in a body that the node still accepts
CONTRACTS = 30  # that one address may offer per minute
PREFIXES = 21  # IPv6 /64s: enough to reserve 20 GiB in one minute with ten registrations each


class Ground(msgspec.Struct, frozen=True):
    """The setting of an attack: the attacker's number, which gives it an address and a /48 of its own, the threads of
    others, and the receiver of callbacks."""

    attacker: int
    threads: list[str]
    receiver: Receiver

    @property
    def client(self) -> str:
        return attacker(self.attacker)


class Attack(msgspec.Struct, frozen=True):
    """An attack: its name, its requests, and what others must write before it.

    `names`: whether it needs host names whose name servers never answer. `connections`: how many it uses, unless all
    attacks run together.
    """

    name: str
    calls: Callable[[Ground], Calls]
    prepare: Callable[[Lab, Server], Awaitable[None]] | None = None
    names: bool = False
    connections: int = 10


def attacker(number: int) -> str:
    """Return the address of an attacker, which no other client uses."""
    return f"198.19.{number // 250}.{number % 250 + 1}"


def post(client: str, path: str, body: bytes, **headers: str) -> Call:
    return Call(forwarded(request("POST", path, body, **headers), client))


def searches(ground: Ground) -> Calls:
    """Searches that look through many long texts without finding anything, via the API and via the HTML page."""

    def call(number: int) -> Call:
        if number % 2:
            return Call(forwarded(request("GET", f"/board?q=zebra+qqqqq{number}"), ground.client))
        query = {"query": f"zebra qqqqq{number}", "limit": 50, "threshold": 0.3}
        return post(ground.client, "/api/v1/board/search", encoded(query))

    return call


def replies(ground: Ground) -> Calls:
    """Replies just below the size that is charged in Redis before the answer, a few to each of many threads."""
    targets = itertools.cycle(ground.threads)

    def call(number: int) -> Call:
        return post(ground.client, f"/api/v1/board/{next(targets)}/replies", encoded({"body": prose(number, 3900)}))

    return call


def messages(ground: Ground) -> Calls:
    """A2A messages, each of which is kept for a month."""

    def call(number: int) -> Call:
        message = {"messageId": f"h-{number}", "role": "ROLE_USER", "parts": [{"text": prose(number, 4600)}]}
        return post(ground.client, "/api/v1/message:send", encoded({"message": message}), A2A_Version="1.0")

    return call


def relayed(ground: Ground) -> Calls:
    """Public relay messages of nearly 1 MiB."""
    large = PROSE.encode() * (MIB // len(PROSE))

    def call(number: int) -> Call:
        body = b'{"message":%b,"report":"%b"}' % (encoded(prose(number, 2000)), large)
        return post(ground.client, "/api/v1/relay", body)

    return call


def bodies(ground: Ground) -> Calls:
    """1 MB of JSON: in messages that are accepted, in threads that are refused for their title or too many objects."""
    allowed = _array(b'{"a":[%b]}' % b",".join(b"%d" % n for n in range(10, 41)), MOST_OBJECTS // 2)
    too_many = _array(b'{"a":1}', MIB * 15 // 16 // 8)

    def call(number: int) -> Call:
        text = encoded(sentence(number) + f" Note {number}.")
        match number % 4:
            case 0:
                body = b'{"message":%b,"public":false,"data":%b}' % (text, allowed)
                return post(ground.client, "/api/v1/relay", body)
            case 1:
                rest = b'"parts":[{"text":%b}],"metadata":{"data":%b}' % (text, allowed)
                body = b'{"message":{"messageId":"b-%d","role":"ROLE_USER",%b}}' % (number, rest)
                return post(ground.client, "/api/v1/message:send", body, A2A_Version="1.0")
            case turn:
                values = allowed if turn == 2 else too_many
                return post(ground.client, "/api/v1/board", b'{"title":%d,"body":%b}' % (number, values))

    return call


def _array(value: bytes, count: int) -> bytes:
    return b"[" + b",".join([value] * count) + b"]"


def nothing(ground: Ground) -> Calls:
    """Requests for unknown paths, which no limit counts."""
    return lambda number: Call(forwarded(request("GET", f"/nothing/{number}"), ground.client))


def reads(ground: Ground) -> Calls:
    """Requests with small answers that no limit counts: health, lists of agents and contracts, the MCP tools."""
    tools = post(ground.client, "/api/v1/mcp", encoded({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))
    paths = ("/health", "/api/v1/agents", "/api/v1/tasks")
    lists = [Call(forwarded(request("GET", path), ground.client)) for path in paths]
    calls = (*lists, tools)
    return lambda number: calls[number % len(calls)]


def registrations(ground: Ground) -> Calls:
    """Registrations of 100 MiB artifacts that are never uploaded, from many /64s of one /48."""
    net = f"2001:db8:{ground.attacker:x}"
    digest = {"Content_Digest": "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"}
    manifest: dict[str, Any] = {"publisher_id": "h", "media_type": "text/csv", "byte_size": 100 * MIB}
    manifest["digest_sha256"] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    body = encoded(manifest)
    return lambda number: post(f"{net}:{number % PREFIXES:x}::1", "/api/v1/artifacts", body, **digest)


def shared_host(ground: Ground) -> Calls:
    """Callbacks to the shared host: six URLs that answer 503, and as many events as possible to one that works."""
    failing = [ground.receiver.shared(f"{FAILING}/{number}") for number in range(6)]
    return contracts(ground, [*failing, *[ground.receiver.shared("/many")] * (CONTRACTS - len(failing))])


def silent_names(ground: Ground) -> Calls:
    """Callbacks to host names whose name servers never answer, each in its own domain."""
    return contracts(ground, [f"http://www.silent-{number}.example/" for number in range(CONTRACTS)])


def contracts(ground: Ground, urls: list[str]) -> Calls:
    """Contracts that are offered, claimed, begun and completed without delay: three events for each URL."""
    turn = itertools.cycle(urls)
    steps: deque[Call] = deque()

    def then(made: Callable[[Created], list[Call]]) -> Callable[[int, bytes], None]:
        def answered(status: int, body: bytes) -> None:
            if status in {200, 201}:
                steps.extend(made(created(body)))

        return answered

    def claim(contract: Created) -> list[Call]:
        call = post(ground.client, f"/api/v1/tasks/{contract.id}/claim", encoded({"assignee_id": "h"}))
        call.answered = then(go_on)
        return [call]

    def go_on(contract: Created) -> list[Call]:
        path, token = f"/api/v1/tasks/{contract.id}", {"claim_token": contract.claim_token}
        begin = post(ground.client, f"{path}/transition", encoded({"actor_id": "h", **token}))
        begin.answered = then(lambda _: [post(ground.client, f"{path}/complete", encoded(token))])
        return [begin]

    def call(number: int) -> Call:
        if steps:
            return steps.popleft()
        offer = {"publisher_id": f"h-{number}", "title": sentence(number), "callback_url": next(turn)}
        offered = post(ground.client, "/api/v1/tasks", encoded(offer))
        offered.answered = then(claim)
        return offered

    return call


@contextlib.asynccontextmanager
async def under_attack(lab: Lab, node: Server, calls: Calls, connections: int) -> AsyncGenerator[Counter[int]]:
    """Run an attack on `connections` connections until the end of the block; yields the statuses of its answers."""
    loop = asyncio.get_running_loop()
    statuses: Counter[int] = Counter()
    numbers = itertools.count()
    last = 0

    def done(call: Call, status: int, body: bytes) -> None:
        nonlocal last
        last = status
        statuses[status] += 1
        if call.answered is not None:
            call.answered(status, body)

    def send(connection: Connection) -> None:
        if connection.transport is not None and not connection.transport.is_closing():
            connection.send(calls(next(numbers)), now())

    def ready(connection: Connection) -> None:
        if 200 <= last < 300:
            send(connection)
        else:
            loop.call_later(REFUSED_PAUSE, send, connection)

    async with lab.pool(node, connections) as pool:
        pool.done, pool.ready = done, ready
        idle = list(pool.idle)
        pool.idle.clear()
        for connection in idle:
            send(connection)
        yield statuses


async def hostile_threads(lab: Lab, node: Server) -> None:
    """Post threads with long replies that share a word, from many addresses within their limits.

    If the node accepts a reply that is English only in evenly spaced windows, all replies are of that kind, and most of
    their words occur nowhere else. Otherwise they are English throughout. What the node refuses is left out.
    """
    made: list[str] = []

    def thread(number: int) -> Call:
        def answered(status: int, body: bytes) -> None:
            if status == 201:
                made.append(created(body).id)

        body = encoded({"title": f"A zebra came by, note {number}", "body": prose(number, 500)})
        call = post(attacker(500 + number), "/api/v1/board", body)
        call.answered, call.expect = answered, (201,)
        return call

    async with lab.pool(node, 8) as pool:
        await closed_loop(pool, thread, 60.0, count=HOSTILE_THREADS)
        if not made:
            return
        tried = post(attacker(499), f"/api/v1/board/{made[0]}/replies", encoded({"body": riddled(0)}))
        status, _ = await ask(node, tried.wire, timeout=30.0)
        long = riddled if status == 201 else whole

        def reply(number: int) -> Call:
            at = number % len(made)
            body = encoded({"body": long(number)})
            call = post(attacker(500 + at), f"/api/v1/board/{made[at]}/replies", body)
            call.expect = (201,)
            return call

        seen = await closed_loop(pool, reply, 60.0, count=HOSTILE_REPLIES * len(made))
    lab.say(f"{len(made)} hostile threads, {seen.good} of {seen.sent} long replies, {long.__name__}")


def whole(number: int) -> str:
    """Return an English text of the greatest permitted length."""
    return prose(number, LONGEST_REPLY)


def riddled(number: int) -> str:
    """Return a text of the greatest permitted length: random letters, with English only in evenly spaced windows."""
    letters = random.Random(number)
    words = ["".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=4)) for _ in range(LONGEST_REPLY // 5)]
    text = " ".join(words).ljust(LONGEST_REPLY, ".")
    for place in range(SAMPLES):
        start = place * (LONGEST_REPLY - SAMPLE) // (SAMPLES - 1)
        text = text[:start] + prose(number + place, SAMPLE) + text[start + SAMPLE :]
    return text


SEARCHES = Attack("searches of long replies", searches, hostile_threads)
REPLIES = Attack("replies of 3.9 kB to hundreds of threads", replies)
MESSAGES = Attack("message:send", messages)
RELAYED = Attack("public relay of 1 MB", relayed)
BODIES = Attack("1 MB of JSON, refused and accepted", bodies)
REGISTRATIONS = Attack("100 MiB artifacts promised by one /48", registrations)
SHARED_HOST = Attack("failing and many callbacks to a shared host", shared_host)
SILENT_NAMES = Attack("callbacks to names without an answer", silent_names, names=True)
CROWD = Attack("replies of 3.9 kB on a hundred connections", replies, connections=100)
NOTHING = Attack("unknown paths on 250 connections", nothing, connections=250)
READS = Attack("small reads on a hundred connections", reads, connections=100)
ATTACKS = (REPLIES, MESSAGES, RELAYED, BODIES, SEARCHES, SHARED_HOST, SILENT_NAMES, REGISTRATIONS)
