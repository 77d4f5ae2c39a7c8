"""The load of others while one address is hostile: requests of every kind, from a thousand addresses in turn."""

import itertools
from base64 import b64encode
from hashlib import sha256

from bench.client import Call, forwarded, request
from bench.entities import Created, Sessions, created, in_turn, relay_messages, session_calls, task_calls, threads
from bench.lab import Lab
from bench.load import Calls
from bench.payload import MCP_HEADERS, Template, encoded, message_body, sentence, tool_call
from bench.server import Server

CLIENTS = 1000  # at 200 requests a second, each address sends one every five seconds, far within any limit
THREADS, SESSIONS, TASKS = 300, 100, 300  # created before the first request
HEALTH = request("GET", "/health")
ARTIFACT = b"A small report of a thousand bytes or so."

_search = Template("POST", "/api/v1/board/search")
_message = Template("POST", "/api/v1/message:send", A2A_Version="1.0")
_mcp = Template("POST", "/api/v1/mcp", **MCP_HEADERS)
_digest = sha256(ARTIFACT)
_register = request(
    "POST",
    "/api/v1/artifacts",
    encoded(
        {
            "publisher_id": "report-desk",
            "media_type": "text/plain",
            "byte_size": len(ARTIFACT),
            "digest_sha256": _digest.hexdigest(),
        }
    ),
    Content_Digest=f"sha-256=:{b64encode(_digest.digest()).decode()}:",
)


def client(number: int) -> str:
    """Return one of the thousand addresses, in the network that RFC 2544 reserves for benchmarks."""
    high, low = divmod(number % CLIENTS, 250)
    return f"198.18.{high}.{low + 1}"


def from_clients(calls: Calls) -> Calls:
    """Send each of the requests from the next of the thousand addresses."""

    def call(index: int) -> Call:
        made = calls(index)
        made.wire = forwarded(made.wire, client(index))
        return made

    return call


SHARES = {
    "relay": 4,
    "private relay": 6,
    "post": 1,
    "reply": 2,
    "read": 6,
    "search": 1,
    "list threads": 3,
    "list tasks": 3,
    "offer": 3,
    "claim": 3,
    "complete": 3,
    "session": 2,
    "send": 5,
    "poll": 6,
    "message:send": 3,
    "tools/call": 3,
    "artifact": 1,
    "health": 2,
}
"""Share of each kind, in parts of the total. None is below 1 %, so that a delayed kind shows in the total p99."""

IN_TURN = tuple(kind for turn in range(max(SHARES.values())) for kind, share in SHARES.items() if turn < share)


class Day:
    """Requests of all kinds in turn."""

    def __init__(self, lab: Lab, threads_there: list[str], sessions: list[str], offered: list[str]) -> None:
        self.threads = threads_there
        self._offered = offered
        self._claimed: list[Created] = []
        self._numbers = itertools.count()
        lines = Sessions(sessions)
        self._makers: dict[str, Calls] = {
            "relay": relay_messages(lab),
            "private relay": relay_messages(lab, public=False),
            "post": threads(lab),
            "reply": self._reply,
            "read": lambda number: Call(request("GET", f"/api/v1/board/threads/{self._thread(number)}")),
            "search": lambda number: Call(_search(encoded({"query": sentence(number)}))),
            "list threads": in_turn([request("GET", "/api/v1/board?limit=20")]),
            "list tasks": in_turn([request("GET", "/api/v1/tasks?status=offered")]),
            "offer": task_calls(lab, offered),
            "claim": self._claim,
            "complete": self._complete,
            "session": session_calls(),
            "send": lines.send,
            "poll": lines.poll,
            "message:send": lambda number: Call(_message(message_body(number))),
            "tools/call": lambda number: Call(_mcp(tool_call(number, "relay_message", _private(number)))),
            "artifact": lambda _number: Call(_register, "", (201,)),
            "health": lambda _number: Call(HEALTH),
        }

    def call(self, _index: int) -> Call:
        number = next(self._numbers)
        kind = IN_TURN[number % len(IN_TURN)]
        if kind == "complete" and not self._claimed:  # answers to claims are late: there is nothing to complete yet
            kind = "claim"
        if kind == "claim" and not self._offered:
            kind = "offer"
        call = self._makers[kind](number)
        call.kind = kind
        call.wire = forwarded(call.wire, client(number))
        return call

    def _thread(self, number: int) -> str:
        return self.threads[number % len(self.threads)]

    def _reply(self, number: int) -> Call:
        path = f"/api/v1/board/{self._thread(number)}/replies"
        return Call(request("POST", path, encoded({"body": _note(number)})), "", (201,))

    def _claim(self, number: int) -> Call:
        def answered(status: int, body: bytes) -> None:
            if status == 200:
                self._claimed.append(created(body))

        path = f"/api/v1/tasks/{self._offered.pop(0)}/claim"
        return Call(request("POST", path, b'{"assignee_id":"agent-%d"}' % number), answered=answered)

    def _complete(self, number: int) -> Call:
        claimed = self._claimed.pop(0)
        body = encoded({"claim_token": claimed.claim_token, "result_payload": {"note": number}})
        return Call(request("POST", f"/api/v1/tasks/{claimed.id}/complete", body))


async def prepared(lab: Lab, node: Server) -> Day:
    """Create threads, sessions and contracts on the node and return a Day that uses them. Raises Unfit if one fails."""
    there: list[str] = []
    opened: list[str] = []
    offered: list[str] = []
    await lab.fill(node, from_clients(threads(lab, there)), THREADS, "threads")
    await lab.fill(node, from_clients(session_calls(opened)), SESSIONS, "sessions")
    await lab.fill(node, from_clients(task_calls(lab, offered)), TASKS, "tasks")
    return Day(lab, there, opened, offered)


def _private(number: int) -> dict[str, object]:
    return {"message": _note(number), "public": False}


def _note(number: int) -> str:
    return f"{sentence(number)} Note {number}."
