"""A web process dies before any one of its calls to Redis: repeating the request does the rest, once.

The death is simulated: from the chosen call on, nothing that the request asks for reaches Redis.
"""

import asyncio
import math
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from node.store.connection import Call, CallResult, Connection, Unawaited
from tests.agents.calls import card_of
from tests.support.limits import every_limit
from tests.support.node_under_test import NodeUnderTest, running, settings_for
from tests.support.servers import Cluster, RedisServer

NOT_COMPARED = (
    *("rate:", "bytes:", "copies:"),  # count requests
    "held:",  # a place in a quota that was taken in vain ends by itself
    *("board:", "tasks:", "offers:", "agents:", "search:", "doc:"),  # a worker makes them from the events
)
"""Prefixes of keys."""
HINTS = {
    b"again_at",  # a repeated completion lets its artifact be looked for once more, if the first look finds nothing
    b"ended_at",  # of the receipts of a closed inbox: without it, a task gets its time of failure when it is read
}
"""Hash fields that say nothing about how often a request was done."""
ID = re.compile(r"(?<![\w-])[\w-]{16,}(?![\w-])|\d+\.\d+\.\d+\.\d+")
CALLBACK = "http://127.0.0.1:9/hook"
SAID = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello"}]}

Facts = dict[str, Any]
Ask = Callable[[NodeUnderTest, Facts], Awaitable[httpx2.Response]]


class Life:
    """The calls to Redis that a request makes before its process dies."""

    def __init__(self, most: int) -> None:
        self.made = 0
        self.is_over = False
        """Whether the request wanted to make more calls."""
        self._most = most

    def makes_one_more(self) -> bool:
        """Count a call, and return whether it is made."""
        self.is_over = self.made == self._most
        self.made += not self.is_over
        return not self.is_over


LIFE: ContextVar[Life | None] = ContextVar("life", default=None)


@contextmanager
def living(calls: int) -> Generator[Life]:
    """Let requests within the block make at most this many calls."""
    life = Life(calls)
    token = LIFE.set(life)
    try:
        yield life
    finally:
        LIFE.reset(token)


@pytest.fixture(autouse=True)
def mortal(monkeypatch: pytest.MonkeyPatch) -> None:
    submit = Connection.submit

    def submit_while_alive(self: Connection, call: Call) -> "asyncio.Future[CallResult]":
        life = LIFE.get()
        if life is None or life.makes_one_more():
            return submit(self, call)
        if not isinstance(call, Unawaited):  # their outcome is shared by all unawaited calls
            call.outcome.cancel()
        return call.outcome

    monkeypatch.setattr(Connection, "submit", submit_while_alive)


@pytest_asyncio.fixture
async def node(empty_redis: RedisServer | Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[NodeUnderTest]:
    # If listing a contract comes late, as happens on a busy machine, it takes other calls.
    monkeypatch.setattr("node.tasks.store.LATE_SECONDS", math.inf)
    settings = settings_for(
        empty_redis.url,
        limits=every_limit(1000, 60),
        client_bytes=0,  # otherwise one request of several makes one more call, to report the bytes of all
        client_share=0,
        callback_allow_private=True,
        embedding_model="none",
    )
    async with running(settings) as node:
        yield node


def post(path: str, body: Any, *, key: bool = True, proof: str = "", a2a: str = "") -> Ask:
    """Return a request whose path names facts in braces, and whose body names facts with a leading $."""

    async def ask(node: NodeUnderTest, facts: Facts) -> httpx2.Response:
        sent = {name: facts[value[1:]] if str(value).startswith("$") else value for name, value in body.items()}
        headers = {"idempotency-key": f"once for {path}"} if key else {}
        if proof:
            headers["authorization"] = f"Bearer {facts[proof]}"
        if a2a:
            headers["a2a-version"] = a2a
        return await node.client.post(path.format(**facts), json=sent, headers=headers)

    return ask


def delete(path: str, proof: str) -> Ask:
    async def ask(node: NodeUnderTest, facts: Facts) -> httpx2.Response:
        return await node.client.delete(path.format(**facts), headers={"authorization": f"Bearer {facts[proof]}"})

    return ask


OFFER = {"publisher_id": "p", "title": "Translate a memo", "callback_url": CALLBACK}
offer, offer_reviewed = post("/api/v1/tasks", OFFER), post("/api/v1/tasks", OFFER | {"review_seconds": 60})
claim = post("/api/v1/tasks/{id}/claim", {"assignee_id": "w"})
complete = post("/api/v1/tasks/{id}/complete", {"claim_token": "$claim_token", "result_payload": {"a": 1}}, key=False)
fail = post("/api/v1/tasks/{id}/fail", {"claim_token": "$claim_token", "code": "it.broke"}, key=False)
thread = post("/api/v1/board", {"title": "A question", "body": "Who can parse a CSV file?", "callback_url": CALLBACK})
session = post("/api/v1/sessions", {"callback_url": CALLBACK})
inbox = post("/api/v1/inboxes", {"label": "desk", "callback_url": CALLBACK})
letter = post("/api/v1/inboxes/{address}/messages", {"body": "Hello"})
agent = post("/api/v1/agents", {"card": card_of("Report desk")}, proof="inbox_token")
task = post(
    "/api/v1/inboxes/{address}/a2a/message:send", {"message": SAID, "configuration": {"returnImmediately": True}}
)
settled = "/api/v1/inboxes/{address}/messages/{id}/settle"
A2A = "/api/v1/inboxes/{address}/a2a"
publisher = {"publisher_token": "$publisher_token"}

OPERATIONS: dict[str, tuple[Ask, ...]] = {
    "relay": (post("/api/v1/relay", {"message": "Who can summarise a long report?", "callback_url": CALLBACK}),),
    "relay, private": (post("/api/v1/relay", {"message": "Who can summarise a long report?", "public": False}),),
    "thread": (thread,),
    "reply": (thread, post("/api/v1/board/{id}/replies", {"body": "I can do that"})),
    "session": (session,),
    "line": (session, post("/api/v1/sessions/{session_id}/messages", {"body": "a line"})),
    "end of a session": (session, post("/api/v1/sessions/{session_id}/destroy", {"destroy_token": "$destroy_token"})),
    "offer": (offer,),
    "claim": (offer, claim),
    "claim of any": (offer, post("/api/v1/tasks/claim-next", {"assignee_id": "w"})),
    "completion": (offer, claim, complete),
    "submission": (offer_reviewed, claim, complete),
    "acceptance": (
        *(offer_reviewed, claim, complete),
        post("/api/v1/tasks/{id}/accept", publisher, key=False),
    ),
    "rejection": (
        *(offer_reviewed, claim, complete),
        post("/api/v1/tasks/{id}/reject", publisher | {"reason": "It is too short."}, key=False),
    ),
    "failure": (offer, claim, fail),
    "another try": (*(offer, claim, fail), post("/api/v1/tasks/{id}/retry", publisher)),
    "cancellation": (offer, claim, post("/api/v1/tasks/{id}/cancel", publisher, key=False)),
    "release": (offer, claim, post("/api/v1/tasks/{id}/release", {"claim_token": "$claim_token"})),
    "inbox": (inbox,),
    "renewal of an inbox": (inbox, post("/api/v1/inboxes", {"label": "counter"}, proof="inbox_token")),
    "end of an inbox's tokens": (inbox, post("/api/v1/inboxes", {"rotate": True}, proof="inbox_token")),
    "message": (inbox, letter),
    "settlement": (inbox, letter, post(settled, {"status": "done"}, key=False, proof="inbox_token")),
    "settlement of all": (
        *(inbox, letter),
        post("/api/v1/inboxes/{address}/settle", {"through_seq": 9}, key=False, proof="inbox_token"),
    ),
    "withdrawal": (inbox, letter, delete("/api/v1/inboxes/{address}/messages/{id}", "receipt_token")),
    "end of an inbox": (inbox, letter, delete("/api/v1/inboxes/{address}", "inbox_token")),
    "task of an inbox": (inbox, task),
    "cancellation of a task": (inbox, task, post(f"{A2A}/tasks/{{task[id]}}:cancel", {}, key=False)),
    "agent": (inbox, agent),
    "agent by its URL": (post("/api/v1/agents", {"url": CALLBACK}),),
    "end of an agent": (inbox, agent, delete("/api/v1/agents/{id}", "inbox_token")),
    "report": (thread, post("/api/v1/board/{id}/report", {"reason": "It is about something else."}, key=False)),
    "A2A message": (post("/api/v1/message:send", {"message": SAID}, a2a="1.0"),),
    "small artifact": (
        post("/api/v1/artifacts/inline", {"publisher_id": "p", "media_type": "text/plain", "text": "Hello"}),
    ),
}
"""For each case, the preceding requests, and the request that is cut off."""

ENDS = {"end of a session", "end of an inbox", "end of an agent"}
"""Cases in which a repeated request finds nothing any more."""


async def prepared(node: NodeUnderTest, before: Sequence[Ask]) -> Facts:
    """Send the preceding requests on an empty Redis, and return the facts from their answers."""
    await node.store.everywhere("FLUSHALL")
    facts: Facts = {}
    for ask in before:
        answer = await ask(node, facts)
        assert answer.is_success, answer.text
        facts |= answer.json()
    await node.a_millisecond_later()  # an inbox renewed in the millisecond of its opening needs fewer calls
    return facts


async def kept(node: NodeUnderTest, ignored: tuple[str, ...] = NOT_COMPARED) -> Counter[tuple[str, Any, bool]]:
    """Return what Redis holds: keys without ids, the size of each, and whether it has a TTL."""
    found: Counter[tuple[str, Any, bool]] = Counter()
    sizes = {
        b"hash": "HKEYS",
        b"zset": "ZCARD",
        b"stream": "XLEN",
        b"list": "LLEN",
        b"set": "SCARD",
        b"string": "EXISTS",
    }
    for name in await node.names("*"):
        if not name.startswith(ignored):
            kind, ttl = await node.store.command("TYPE", name), await node.store.command("PTTL", name)
            assert isinstance(kind, bytes) and isinstance(ttl, int)
            size = await node.store.command(sizes[kind], name)
            if kind == b"hash":
                assert isinstance(size, list)
                size = len(set(size) - HINTS)
            found[re.sub(r"\{[0-9a-f]{2}\}", "", ID.sub("", name)), size, ttl >= 0] += 1
    return found


@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_request_that_was_cut_off_anywhere_is_done_once(node: NodeUnderTest, name: str) -> None:
    *before, asked = OPERATIONS[name]
    await asked(node, await prepared(node, before))  # from now on all scripts are loaded
    facts = await prepared(node, before)
    with living(1000) as whole:
        done = await asked(node, facts)
        await asyncio.sleep(0)  # lists are updated in the next turn of the event loop
    assert done.is_success, done.text
    once = await kept(node)
    for calls in range(whole.made + 1):  # after the last call, only the answer is lost
        facts = await prepared(node, before)
        with living(calls) as cut, suppress(asyncio.CancelledError):
            await asked(node, facts)
            await asyncio.sleep(0)
        assert cut.is_over == (calls < whole.made)
        again = await asked(node, facts)
        assert again.status_code == done.status_code or (name in ENDS and again.status_code == 404), again.text
        assert await kept(node) == once, f"cut off after {calls} calls"
