"""Finds out whether an agent can be called, without any effect on the agent (NETWORK 2).

An agent is healthy if it does what its card says, not if it merely answers. So it is sent a request that its protocol
must refuse, and has to refuse the request in the form of the protocol. An agent that is reached through its inbox is
not probed over the network: the node knows itself when the inbox's owner was last seen.

A probe reads the agent's card first. A changed card is judged as if it had just been posted: the directory shows what
the host says today, because that is all that a host proves. The card of an agent that is proven by a key or an inbox is
never fetched.
"""

from asyncio import get_running_loop, timeout
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, cast

import msgspec
from msgspec import json
from msgspec.structs import replace

from node.agents.card import A2A_HTTP, A2A_RPC, MCP
from node.agents.entry import StoredAgent
from node.agents.fetch import MISSING, CardFetcher
from node.agents.findings import CheckResult, Finding, Probe
from node.callbacks.attempt import Later
from node.callbacks.call import CallAnswer, CallResult, Headers
from node.callbacks.fair import FairCaller
from node.callbacks.target import Target, TargetRefused, parse

TURN_SECONDS = 10.0
"""How long a request waits for its turn. If its turn does not come, the agent is probed later."""

PROBE_SECONDS = 45.0
"""Timeout of a whole probe. It is shorter than `store.HIDDEN_MS`, after which the entry is due again in case its worker
has died."""

GATES = (401, 402, 403, 407)
"""HTTP statuses with which an agent asks for credentials or payment."""

DOWN = (502, 503, 504)
"""HTTP statuses with which a proxy says that the agent behind it is not available."""

INVALID = (-32600, -32602)
"""JSON-RPC error codes: invalid request, invalid params."""

MCP_VERSION = "2025-06-18"

OF_MCP = (-32020, -32021, -32022)
"""JSON-RPC error codes that only MCP defines. A server without a revision that begins with `initialize` may answer with
any of them: the request lacks the headers of the later revisions (MCP 2026-07-28, Streamable HTTP, Server Validation).
"""

JSON_BODY = (b"Content-Type", b"application/json")


class Prober:
    """Probes agents on behalf of the clients who listed them."""

    def __init__(self, calls: FairCaller, fetcher: CardFetcher) -> None:
        self._calls = calls
        self._fetcher = fetcher

    async def probe(self, agent: StoredAgent) -> Probe:
        """Probe an agent that was listed by its URL. Raises StoreUnavailable."""
        try:
            async with timeout(PROBE_SECONDS):
                return await self._probe(agent)
        except TimeoutError:  # no turn came in time: each request by itself has a shorter timeout
            return Probe(None)
        except TargetRefused:  # the operator's settings have changed
            return Probe("unreachable")

    async def _probe(self, agent: StoredAgent) -> Probe:
        target = parse(agent.card_url, self._calls.policy)
        fetched = await self._fetcher.get(target, agent.publisher, get_running_loop().time() + TURN_SECONDS)
        if isinstance(fetched, Later):
            return Probe(None)
        if not isinstance(fetched, CallAnswer):
            return Probe("unreachable")
        if fetched.status in MISSING:
            return Probe("gone")
        if fetched.status != HTTPStatus.OK:
            return Probe(await self.call(agent))
        card = self._fetcher.judged(target, fetched)
        if card.reason or card.fields == agent.of_card:
            return Probe(await self.call(agent), CheckResult(card.reason))
        fields = card.fields
        there = replace(agent, url=fields["url"], binding=fields["binding"], version=fields["version"])
        return Probe(await self.call(there), card)

    async def call(self, agent: StoredAgent) -> Finding | None:
        """Send the endpoint of an agent a request that it must refuse, and judge the answer.

        Returns None if the agent cannot be called now. Raises StoreUnavailable.
        """
        try:
            return await self._call(agent)
        except TargetRefused:  # the operator's settings have changed, or the URL is too long with the added path
            return "unreachable"

    async def _call(self, agent: StoredAgent) -> Finding | None:
        endpoint = parse(agent.url, self._calls.policy)
        version = [(b"A2A-Version", agent.version.encode())] if agent.version else []
        is_old = agent.version.startswith("0.")
        if agent.binding == A2A_HTTP:
            path = "/v1/message:send" if is_old else "/message:send"
            below = f"{endpoint.scheme}://{endpoint.authority}{endpoint.resource.partition('?')[0].rstrip('/')}{path}"
            answer = await self._send(
                "POST", parse(below, self._calls.policy), agent.publisher, [JSON_BODY, *version], b"{}"
            )
        elif agent.binding == A2A_RPC:
            method = "message/send" if is_old else "SendMessage"
            call = json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}})
            answer = await self._send("POST", endpoint, agent.publisher, [JSON_BODY, *version], call)
        elif agent.binding == MCP:
            answer = await self._initialize(endpoint, agent.publisher)
        else:
            return "unknown"
        return judged(agent.binding, answer)

    async def _initialize(self, endpoint: Target, by: str) -> CallResult:
        """Start an MCP session, and end it if the server keeps sessions."""
        params = {
            "protocolVersion": MCP_VERSION,
            "capabilities": {},
            "clientInfo": {"name": "relay-node-directory", "version": "1.0"},
        }
        call = json.encode({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        accept = (b"Accept", b"application/json, text/event-stream")
        answer = await self._send("POST", endpoint, by, [JSON_BODY, accept], call)
        if isinstance(answer, CallAnswer) and (session := answer.header(b"mcp-session-id")):
            await self._send("DELETE", endpoint, by, [(b"Mcp-Session-Id", session.encode("latin-1"))])
        return answer

    async def _send(self, method: str, target: Target, by: str, headers: Headers, body: bytes = b"") -> CallResult:
        request = self._calls.caller.request(method, target, [self._fetcher.user_agent, *headers], body)
        return await self._calls.call_in_turn(target, request, by, get_running_loop().time() + TURN_SECONDS)


def judged(binding: str, answer: CallResult) -> Finding | None:
    """Return what an answer to a probe says about the agent; None if it says nothing."""
    if isinstance(answer, Later) or (isinstance(answer, CallAnswer) and answer.status == HTTPStatus.TOO_MANY_REQUESTS):
        return None
    if not isinstance(answer, CallAnswer) or answer.status in DOWN:
        return "unreachable"
    if answer.status in GATES:
        return "gated"
    return "open" if SPEAKS[binding](answer) else "wrong_protocol"


def _refuses_by_http(answer: CallAnswer) -> bool:
    """Whether the answer is an error of A2A over HTTP: a google.rpc.Status, or problem details (RFC 9457)."""
    said = _object(answer.body)
    error = said.get("error")
    if isinstance(error, dict):
        return answer.status == HTTPStatus.BAD_REQUEST and "message" in error and ("code" in error or "status" in error)
    return answer.status == HTTPStatus.BAD_REQUEST and "title" in said and said.get("status") == HTTPStatus.BAD_REQUEST


def _refuses_by_rpc(answer: CallAnswer) -> bool:
    said = _object(answer.body)
    error = said.get("error")
    return said.get("jsonrpc") == "2.0" and isinstance(error, dict) and cast("Any", error).get("code") in INVALID


def _speaks_mcp(answer: CallAnswer) -> bool:
    """Whether the answer is a result of `initialize`, or the refusal of a server that supports only later revisions."""
    said = _object(answer.body) or _object(_data(answer.body))
    if said.get("jsonrpc") != "2.0":
        return False
    result, error = said.get("result"), said.get("error")
    if isinstance(result, dict):
        return "protocolVersion" in result
    refusal = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
    return refusal.get("code") in OF_MCP or "supported" in str(refusal.get("data", ""))


SPEAKS: Mapping[str, Callable[[CallAnswer], bool]] = {
    A2A_HTTP: _refuses_by_http,
    A2A_RPC: _refuses_by_rpc,
    MCP: _speaks_mcp,
}
"""By binding, a function that says whether the answer to a probe has the form of the protocol."""


def _data(body: bytes) -> bytes:
    """Return the data of the first event with data in a stream of server-sent events."""
    for event in body.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = [line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")]
        if any(lines):
            return b"\n".join(lines)
    return b""


def _object(body: bytes) -> dict[str, Any]:
    """Decode a JSON object; empty for anything else."""
    try:
        return json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return {}
