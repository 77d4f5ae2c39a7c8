"""The MCP server behind both transports: a message in, its reply out.

Stateless: nothing is remembered between two messages, so any process can answer any of them.
"""

import sys
from collections.abc import Awaitable, Callable

import msgspec

from node.common.refusal import Refused
from node.mcp import answer_budget
from node.mcp.answer_budget import AnswerBudget
from node.mcp.json_rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LIMIT_EXCEEDED,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    UNSET,
    Raw,
    RpcError,
    RpcRequest,
    Unset,
    error_reply,
    object_of,
    read,
    reply,
    split,
)
from node.mcp.prompts import Prompts
from node.mcp.resources import STABLE_MS, TEMPLATES, Resources
from node.mcp.stateless import ResultFrame, check
from node.mcp.tool_calls import ToolCalls
from node.mcp.tool_result import Failure, failure, failure_of
from node.mcp.versions import CAPABILITIES, INSTRUCTIONS, PREFERRED, SERVER_INFO, STATELESS, WITH_HANDSHAKE
from node.store import StoreUnavailable
from node.web.errors import response_to
from node.web.http import Request
from node.web.limits import Limiter

MAX_BATCH = 50
"""Messages in one batch. What their answers may be in all says `node.mcp.answer_budget`."""

LIMIT = "mcp"

UNCOUNTED = frozenset({"initialize", "ping", "server/discover"})
"""Methods that do not count in the limit: a client's first words and its signs of life cost nothing."""

CALL = "tools/call"


class Result(msgspec.Struct, frozen=True, gc=False):
    """The members of a result object, and for how many ms clients may keep it; None if they may not ask that."""

    members: bytes
    ttl_ms: int | None = None


class InitializeParams(msgspec.Struct, rename="camel"):
    """The params of initialize. What the client can do makes no difference here."""

    protocol_version: str = PREFERRED


class ListParams(msgspec.Struct):
    """The params of a list; there is one page only."""

    cursor: str | None = None


MODERN_STATUS = {METHOD_NOT_FOUND: 404, LIMIT_EXCEEDED: 429, INTERNAL_ERROR: 500}
"""HTTP status of an error of 2026-07-28; of any other 400. Earlier revisions answer 200 with an error in it."""

Method = Callable[[Raw, Request], Awaitable[Result]]
Methods = dict[str, Method | Result]
"""What is always the same is there as it is sent."""

_encode = msgspec.json.Encoder().encode
_initialize = msgspec.json.Decoder(InitializeParams)
_list = msgspec.json.Decoder(ListParams)


class RpcReply(msgspec.Struct, frozen=True, gc=False):
    """What a POST is answered with; an empty body to one that holds no request."""

    status: int
    body: bytes = b""


ACCEPTED = RpcReply(202)


class McpServer:
    """Answers messages."""

    def __init__(self, tools: ToolCalls, prompts: Prompts, resources: Resources, limiter: Limiter) -> None:
        self._limiter = limiter
        self._tools = tools
        self._prompts = prompts
        self._resources = resources
        shared: dict[str, Method | Result] = {
            CALL: self._call,
            "tools/list": _listing("tools", [tool.listed() for tool in tools.tools]),
            "prompts/get": self._get_prompt,
            "prompts/list": _listing("prompts", prompts.listed()),
            "resources/read": self._read_resource,
            "resources/list": _listing("resources", resources.listed()),
            "resources/templates/list": _listing("resourceTemplates", TEMPLATES),
        }
        self._legacy: Methods = {**shared, "initialize": self._greet, "ping": Result(b"")}
        self._modern: Methods = {**shared, "server/discover": DISCOVERY}
        self._envelope = ResultFrame()

    async def legacy(self, body: bytes, request: Request, most: int = sys.maxsize) -> RpcReply:
        """Answer a message or a batch of a revision with a handshake, with about `most` bytes."""
        try:
            given = split(body)
            if not isinstance(given, list):
                answered = await self._answer(read(given), request, AnswerBudget(most))
                return ACCEPTED if answered is None else RpcReply(200, answered)
        except RpcError as error:
            return RpcReply(400, error_reply(None, error))
        if not 0 < len(given) <= MAX_BATCH:
            return RpcReply(
                400, error_reply(None, RpcError(INVALID_REQUEST, f"A batch holds 1 to {MAX_BATCH} messages"))
            )
        left = AnswerBudget(min(most, answer_budget.BATCH))
        # One after the other, as a client expects that sends a line and a poll.
        answers = [answer for member in given if (answer := await self._member(member, request, left)) is not None]
        return RpcReply(200, b"[%b]" % b",".join(answers)) if answers else ACCEPTED

    async def modern(self, body: bytes, request: Request, headers: dict[bytes, bytes]) -> RpcReply:
        """Answer a message of 2026-07-28. A batch is no message there."""
        message_id = None
        try:
            message = read(body)
            if isinstance(message.id, Unset) or message.method is UNSET:
                return ACCEPTED
            message_id = message.id
            check(message, headers)
            result = await self._run(self._modern, message, request)
        except RpcError as error:
            if error.code == RESOURCE_NOT_FOUND:
                error.code = INVALID_PARAMS
            if isinstance(error.data, Failure) and error.data.retry_after:
                request.notes.append((b"retry-after", b"%d" % error.data.retry_after))
            return RpcReply(MODERN_STATUS.get(error.code, 400), error_reply(message_id, error))
        return RpcReply(200, reply(message_id, self._envelope.of(result.members, result.ttl_ms)))

    async def _member(self, member: Raw, request: Request, left: AnswerBudget) -> bytes | None:
        try:
            message = read(member)
        except RpcError as error:
            return error_reply(None, error)
        if message.method == "initialize" and not isinstance(message.id, Unset):
            return error_reply(message.id, RpcError(INVALID_REQUEST, "initialize must not be part of a batch"))
        return await self._answer(message, request, left)

    async def _answer(self, message: RpcRequest, request: Request, left: AnswerBudget) -> bytes | None:
        if isinstance(message.id, Unset) or message.method is UNSET:
            return None  # a notification, or a response to a question that we never ask
        try:
            left.check()
            result = await self._run(self._legacy, message, request)
            answer = reply(message.id, b"{%b}" % result.members)
        except RpcError as error:
            answer = error_reply(message.id, error)
        return left.fit(message.id, answer)

    async def _run(self, methods: Methods, message: RpcRequest, request: Request) -> Result:
        method = methods.get(str(message.method))
        if method is None:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {message.method}")
        if message.method not in UNCOUNTED and (refused := await self._count(message.method, request)) is not None:
            return refused
        params = object_of(message.params, "params")
        if isinstance(method, Result):
            _one_page(params)
            return method
        return await method(params, request)

    async def _count(self, method: object, request: Request) -> Result | None:
        """Take the client's `mcp` limit. A call beyond it has a result that says so; for all else raises RpcError."""
        # Of the members of a batch the last one tells where the client stands.
        request.notes.clear()
        try:
            await self._limiter.take(request, LIMIT)
        except StoreUnavailable as away:
            # What calls nothing is answered as long as this process can.
            return Result(failure(response_to(request, away))) if method == CALL else None
        except Refused as refused:
            response = response_to(request, refused)
            if method == CALL:
                return Result(failure(response))
            over = failure_of(response)
            raise RpcError(LIMIT_EXCEEDED, over.error, over) from None
        return None

    async def _greet(self, params: Raw, request: Request) -> Result:
        """The handshake: the revision that was asked for if we speak it."""
        try:
            asked = _initialize.decode(params).protocol_version
        except msgspec.ValidationError as error:
            raise RpcError(INVALID_PARAMS, f"Invalid params: {error}") from None
        return GREETINGS[asked if asked in WITH_HANDSHAKE else PREFERRED]

    async def _call(self, params: Raw, request: Request) -> Result:
        return Result(await self._tools.call(params, request))

    async def _get_prompt(self, params: Raw, request: Request) -> Result:
        return Result(self._prompts.get(params))

    async def _read_resource(self, params: Raw, request: Request) -> Result:
        return Result(*await self._resources.read(params, request))


def _one_page(params: Raw) -> None:
    """Raise RpcError if the client asks for a page that there is not."""
    try:
        cursor = _list.decode(params).cursor
    except msgspec.ValidationError as error:
        raise RpcError(INVALID_PARAMS, f"Invalid params: {error}") from None
    if cursor is not None:
        raise RpcError(INVALID_PARAMS, "Invalid cursor: there is one page only")


def _listing(name: str, items: object) -> Result:
    """A list, made into JSON once."""
    return Result(_members({name: items}), STABLE_MS)


def _members(content: dict[str, object]) -> bytes:
    """A JSON object without its braces."""
    return _encode(content)[1:-1]


GREETINGS = {
    version: Result(
        _members(
            {
                "protocolVersion": version,
                "capabilities": CAPABILITIES,
                "serverInfo": SERVER_INFO,
                "instructions": INSTRUCTIONS,
            }
        )
    )
    for version in WITH_HANDSHAKE
}
DISCOVERY = Result(
    _members({"supportedVersions": [STATELESS], "capabilities": CAPABILITIES, "instructions": INSTRUCTIONS}), STABLE_MS
)
