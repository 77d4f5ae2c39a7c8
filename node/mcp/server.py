"""The MCP server behind both transports: decodes JSON-RPC messages and answers them.

It keeps no state between messages, so any process can answer any message.
"""

import sys
from collections.abc import Awaitable, Callable

import msgspec
from msgspec import UNSET, Raw

from node.common.refusal import Refused
from node.mcp.answer_budget import BATCH_BYTES, AnswerBudget
from node.mcp.json_rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LIMIT_EXCEEDED,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    RpcError,
    RpcRequest,
    error_reply,
    is_batch,
    members_of,
    object_of,
    read,
    read_member,
    read_params,
    reply,
    split,
)
from node.mcp.prompts import Prompts
from node.mcp.resources import CONSTANT_TTL_MS, TEMPLATES, Resources
from node.mcp.stateless import NAMES_VERSION, check, check_header, check_revision, framed
from node.mcp.tool_calls import ToolCalls
from node.mcp.tool_result import ToolFailure, failure, failure_of
from node.mcp.versions import CAPABILITIES, INSTRUCTIONS, PREFERRED, SERVED, SERVER_INFO, WITH_HANDSHAKE
from node.store import StoreUnavailable
from node.web.errors import forget_frames, response_to
from node.web.http import Request
from node.web.large_bodies import LARGE_BODY
from node.web.limits import Limiter
from node.web.throughput import Throughput

MAX_BATCH = 50
"""Most messages in one batch. `node.mcp.answer_budget` bounds the size of their answers."""

LIMIT = "mcp"

UNCOUNTED = frozenset({"initialize", "ping", "server/discover"})
"""Methods that do not count against the limit: those that open a connection, and the one that keeps it alive."""

CALL = "tools/call"


class EncodedResult(msgspec.Struct, frozen=True, gc=False):
    """A result object, already encoded."""

    members: bytes
    """See `members_of`."""
    ttl_ms: int | None = None
    """How long clients may cache it, in milliseconds. None for methods whose results have no such member."""
    is_list: bool = False
    """Whether its method is a list method, which takes a cursor."""


class InitializeParams(msgspec.Struct, rename="camel"):
    """The params of initialize. The client's capabilities are ignored, because the server sends no requests."""

    protocol_version: str = PREFERRED


class ListParams(msgspec.Struct):
    """The params of a list method. Every list has a single page."""

    cursor: str | None = None


STATELESS_STATUS = {METHOD_NOT_FOUND: 404, LIMIT_EXCEEDED: 429, INTERNAL_ERROR: 500}
"""HTTP status by error code in revision 2026-07-28; 400 for all other codes. Earlier revisions send errors with 200."""

Method = Callable[[Raw, Request], Awaitable[EncodedResult]]
Messages = RpcRequest | list[RpcRequest | RpcError]
"""One message, or the members of a batch. A member that cannot be decoded is an RpcError, and is answered with it."""
Methods = dict[str, Method | EncodedResult]
"""What answers each method: a function, or a constant result."""

_initialize_params = msgspec.json.Decoder(InitializeParams)
_list_params = msgspec.json.Decoder(ListParams)


class RpcReply(msgspec.Struct, frozen=True, gc=False):
    """The answer to one POST. The body is empty if the POST had no request, only notifications or responses."""

    status: int
    body: bytes = b""


ACCEPTED = RpcReply(202)


class McpServer:
    """Answers the messages of a POST, for revisions with a handshake and for the stateless revision."""

    def __init__(
        self, tools: ToolCalls, prompts: Prompts, resources: Resources, limiter: Limiter, throughput: Throughput
    ) -> None:
        self._limiter = limiter
        self._throughput = throughput
        self._tools = tools
        self._prompts = prompts
        self._resources = resources
        shared: dict[str, Method | EncodedResult] = {
            CALL: self._call,
            "tools/list": _listing("tools", tools.listed()),
            "prompts/get": self._get_prompt,
            "prompts/list": _listing("prompts", prompts.listed()),
            "resources/read": self._read_resource,
            "resources/list": _listing("resources", resources.listed()),
            "resources/templates/list": _listing("resourceTemplates", TEMPLATES),
        }
        self._with_handshake: Methods = {**shared, "initialize": self._initialize, "ping": EncodedResult(b"")}
        self._stateless: Methods = {**shared, "server/discover": DISCOVERY}

    async def answer_with_handshake(self, body: bytes, request: Request, version: bytes) -> RpcReply:
        """Answer a message or a batch of a revision with a handshake. `version` is that of the header; empty if absent.

        If a message names another revision than the header, its whole POST is refused before any message is run.
        """
        message_id = None
        try:
            messages = read_messages(body)
            if version and NAMES_VERSION in body:
                if isinstance(messages, RpcRequest):
                    message_id = messages.request_id
                _check_headers(messages, version)
        except RpcError as error:
            return RpcReply(400, error_reply(message_id, error))
        answer = await self.answer(messages, request)
        return RpcReply(200, answer) if answer else ACCEPTED

    def answer(self, messages: Messages, request: Request, max_bytes: int = sys.maxsize) -> Awaitable[bytes]:
        """Return the answer to a message or a batch of a revision with a handshake; empty if it has no request.

        `max_bytes` bounds the total size of the answers. An answer that does not fit is replaced by an error, even if
        the error exceeds the bound.
        """
        if isinstance(messages, RpcRequest):
            return self._answer(messages, request, AnswerBudget(max_bytes))
        return self._answer_batch(messages, request, AnswerBudget(min(max_bytes, BATCH_BYTES)))

    async def answer_stateless(self, body: bytes, request: Request, headers: dict[bytes, bytes]) -> RpcReply:
        """Answer a message of revision 2026-07-28, which has no batches."""
        message_id = None
        try:
            message = read(body)
            message_id = message.request_id
            if message_id is None:
                check_revision(headers)
                return ACCEPTED
            check(message, headers)
            result = await self._run(self._stateless, message, request)
        except RpcError as error:
            if error.code == RESOURCE_NOT_FOUND:
                error.code = INVALID_PARAMS
            if isinstance(error.data, ToolFailure) and error.data.retry_after:
                request.answer_headers.append((b"retry-after", b"%d" % error.data.retry_after))
            return RpcReply(STATELESS_STATUS.get(error.code, 400), error_reply(message_id, error))
        return RpcReply(200, reply(message_id, framed(result.members, result.ttl_ms)))

    async def _answer_batch(
        self, messages: list[RpcRequest | RpcError], request: Request, budget: AnswerBudget
    ) -> bytes:
        # In sequence: a client that sends a line and polls the session in one batch expects the line in the answer.
        answers = [one for each in messages if (one := await self._answer_member(each, request, budget))]
        return b"[%b]" % b",".join(answers) if answers else b""

    async def _answer_member(self, message: RpcRequest | RpcError, request: Request, budget: AnswerBudget) -> bytes:
        if isinstance(message, RpcError):
            return error_reply(None, message)
        if message.method == "initialize" and message.request_id is not None:
            return error_reply(message.request_id, RpcError(INVALID_REQUEST, "initialize must not be part of a batch"))
        return await self._answer(message, request, budget)

    async def _answer(self, message: RpcRequest, request: Request, budget: AnswerBudget) -> bytes:
        request_id = message.request_id
        if request_id is None:  # a notification, or a response, though this server sends no requests
            return b""
        try:
            budget.check()
            result = await self._run(self._with_handshake, message, request)
            answer = reply(request_id, result.members)
        except RpcError as error:
            answer = error_reply(request_id, error)
        sent = budget.fit(request_id, answer)
        # Counted here, not with the POST's response: an answer may go to a stream, or be made but replaced by an error.
        cost, request.cost = request.cost, 0
        self._throughput.add(request.client, cost if sent is answer else cost + len(answer))
        return sent

    async def _run(self, methods: Methods, message: RpcRequest, request: Request) -> EncodedResult:
        method = methods.get(str(message.method))
        if method is None:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {message.method}")
        if message.method not in UNCOUNTED and (failed := await self._admit(message, request)) is not None:
            return failed
        params = object_of(message.params, "params")
        if isinstance(method, EncodedResult):
            if method.is_list and read_params(_list_params, params).cursor is not None:
                raise RpcError(INVALID_PARAMS, "Invalid cursor: the list has only one page; omit cursor")
            return method
        return await method(params, request)

    async def _admit(self, message: RpcRequest, request: Request) -> EncodedResult | None:
        """Count a request against the client's `mcp` limit, and let other requests run before a large one.

        If the client is over the limit or has moved too many bytes, a tool call gets a failed result, which a model
        reads; any other method raises RpcError.
        """
        method = message.method
        # Each member of a batch sets the RateLimit headers anew; those of the last one are sent.
        request.answer_headers.clear()
        try:
            if refused := self._throughput.refusal(request.client):  # for earlier answers of the batch or to a stream
                raise refused
            params = message.params if request.size >= LARGE_BODY else UNSET
            if isinstance(params, Raw) and (size := len(memoryview(params))) >= LARGE_BODY:
                await request.turn.before_step(size)
            await self._limiter.count(request, LIMIT)
        except StoreUnavailable as error:
            # Methods other than a tool call are answered uncounted, since most do not need the store.
            return EncodedResult(failure(response_to(request, error))) if method == CALL else None
        except Refused as refused:
            response = response_to(request, refused)
            if method == CALL:
                return EncodedResult(failure(response))
            over_limit = failure_of(response)
            raise RpcError(LIMIT_EXCEEDED, over_limit.error, over_limit) from None
        return None

    async def _initialize(self, params: Raw, request: Request) -> EncodedResult:
        """Answer the handshake, with the requested revision if the node speaks it, else with PREFERRED."""
        asked = read_params(_initialize_params, params).protocol_version
        return INITIALIZED[asked if asked in WITH_HANDSHAKE else PREFERRED]

    async def _call(self, params: Raw, request: Request) -> EncodedResult:
        return EncodedResult(await self._tools.call(params, request))

    async def _get_prompt(self, params: Raw, request: Request) -> EncodedResult:
        return EncodedResult(self._prompts.get(params))

    async def _read_resource(self, params: Raw, request: Request) -> EncodedResult:
        return EncodedResult(*await self._resources.read(params, request))


def read_messages(body: bytes) -> Messages:
    """Decode the body of a POST of a revision with a handshake. Raises RpcError."""
    if not is_batch(body):
        return read(body)
    members = split(body)
    if not 0 < len(members) <= MAX_BATCH:
        raise RpcError(INVALID_REQUEST, f"A batch holds 1 to {MAX_BATCH} messages")
    return [_read_member(raw) for raw in members]


def _read_member(raw: Raw) -> RpcRequest | RpcError:
    try:
        return read_member(raw)
    except RpcError as error:
        forget_frames(error)  # a frame refers to the list that will hold this error
        return error


def _check_headers(messages: Messages, version: bytes) -> None:
    """Raise RpcError if a message names another revision than the header. Skips members that could not be decoded."""
    for each in [messages] if isinstance(messages, RpcRequest) else messages:
        if isinstance(each, RpcRequest):
            check_header(each, version)


def _listing(name: str, items: object) -> EncodedResult:
    """Return the encoded result of a list method."""
    return EncodedResult(members_of({name: items}), CONSTANT_TTL_MS, is_list=True)


INITIALIZED = {
    version: EncodedResult(
        members_of(
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
DISCOVERY = EncodedResult(
    members_of({"supportedVersions": SERVED, "capabilities": CAPABILITIES, "instructions": INSTRUCTIONS}),
    CONSTANT_TTL_MS,
)
