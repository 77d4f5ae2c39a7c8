"""The JSON-RPC binding of the agents of inboxes: `POST /api/v1/inboxes/{address}/a2a` (A2A v1.0 §9)."""

from collections.abc import Awaitable, Callable
from functools import cache, partial
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from node.a2a.documented import RpcAnswer, RpcBody
from node.a2a.errors import failed_call
from node.a2a.examples import CALLED, MESSAGE
from node.a2a.inboxes.api import BASE, REFUSED
from node.a2a.inboxes.calls import InboxCalls
from node.a2a.inboxes.push_config import DeletedPush
from node.a2a.inboxes.pushes import PushConfigService
from node.a2a.model import ListQuery
from node.a2a.proto_json import integer, state
from node.a2a.query_checks import check_history_length
from node.a2a.refusal import A2AError, no_extended_card
from node.a2a.request import Name, check_media_type, check_version
from node.common.refusal import Invalid
from node.web.http import JSON_TYPE, NO_STORE, Request, Response
from node.web.json import decode, decode_in_steps
from node.web.route import Operation, OtherAnswer, Route, routes_of

CODES = {
    "TASK_NOT_FOUND": -32001,
    "TASK_NOT_CANCELABLE": -32002,
    "PUSH_NOTIFICATION_NOT_SUPPORTED": -32003,
    "UNSUPPORTED_OPERATION": -32004,
    "CONTENT_TYPE_NOT_SUPPORTED": -32005,
    "VERSION_NOT_SUPPORTED": -32009,
    "INVALID_REQUEST": -32600,
    "METHOD_NOT_FOUND": -32601,
    "INVALID_PARAMS": -32602,
    "INTERNAL_ERROR": -32603,
}
"""JSON-RPC error code by A2A reason (A2A v1.0 §5.4)."""

OTHER_CODE = -32000
"""JSON-RPC error code for reasons without one, such as rate limits and an unavailable node. These errors keep their
HTTP status instead of 200."""

OF_HTTP = ("body.", "host.", "signature.")
"""Prefixes of catalogue codes about the HTTP request itself. These errors keep their HTTP status, too."""

PARSE_ERROR = -32700

CALL_ID = "rpc.id"
"""Key in `request.params` for the call's id as JSON, so that `rpc_fault` can repeat the id."""

MAX_CONVERTED_BYTES = 40
"""Maximum size of a value that a function of READ converts, in bytes of JSON. A larger value goes to the typed decoder,
which refuses it: converting a list of 200,000 numbers took 30 ms."""

READ: dict[str, Callable[[object], object]] = {"pageSize": integer, "historyLength": integer, "status": state}
"""Conversions of the params that ProtoJSON allows in several forms."""

RpcId = Annotated[str, Meta(max_length=256)] | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None

T = TypeVar("T", bound=msgspec.Struct)


class RpcCall(msgspec.Struct):
    """A JSON-RPC request."""

    jsonrpc: Literal["2.0"]
    method: Annotated[str, Meta(min_length=1)]
    id: RpcId
    params: msgspec.Raw = msgspec.Raw(b"{}")


class TaskParams(msgspec.Struct, rename="camel"):
    """The params of operations on one task. The length of `id` is bounded because errors repeat it."""

    id: Name
    history_length: int | None = None


class PushParams(msgspec.Struct, rename="camel"):
    """The params of operations on the push notification configs of a task."""

    task_id: Name
    id: str = ""


def rpc_fault(request: Request, failure: Exception) -> Response:
    """Return the JSON-RPC error of a failed call, with the same details as in the HTTP+JSON binding."""
    failed = failed_call(request, failure)
    code = CODES.get(failed.reason, OTHER_CODE)
    if isinstance(failure, Invalid) and failure.issues[0].type == "json_invalid":
        code = CODES["INVALID_PARAMS"] if CALL_ID in request.params else PARSE_ERROR
    error = {"code": code, "message": failed.message, "data": failed.details()}
    refused = dict(failed.headers).get(b"x-error-code", b"").decode()
    has_status = code == OTHER_CODE or refused.startswith(OF_HTTP)
    call_id = msgspec.Raw(request.params.get(CALL_ID, "null").encode())
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": call_id, "error": error})
    return Response(failed.code if has_status else 200, body, [JSON_TYPE, *failed.headers])


class InboxRpcApi:
    """The handler of the JSON-RPC binding."""

    def __init__(self, pushes: PushConfigService, calls: InboxCalls) -> None:
        self._pushes = pushes
        self._calls = calls
        self._methods: dict[str, Callable[[Request, bytes], Awaitable[object]]] = {
            "SendMessage": self._calls.send,
            "GetTask": self._get,
            "ListTasks": self._page,
            "CancelTask": self._cancel,
            "CreateTaskPushNotificationConfig": self._create_push,
            "GetTaskPushNotificationConfig": self._get_push,
            "ListTaskPushNotificationConfigs": self._list_pushes,
            "DeleteTaskPushNotificationConfig": self._delete_push,
        }

    @Operation(
        "Call any A2A operation of an inbox over JSON-RPC",
        body=RpcBody,
        answers=RpcAnswer,
        shows=CALLED,
        also=(OtherAnswer("text/event-stream", RpcAnswer),),
        errors=REFUSED,
        limit="inbox_send",
        example={
            "jsonrpc": "2.0",
            "id": 1,
            "method": "SendMessage",
            "params": {"message": MESSAGE, "configuration": {"returnImmediately": True}},
        },
    )
    async def call(self, request: Request) -> Response:
        check_media_type(request)
        call = await _read(request)
        call_id = msgspec.json.encode(call.id)
        request.params = {**request.params, CALL_ID: call_id.decode()}
        check_version(request)
        params = bytes(call.params)
        if not params.startswith(b"{"):
            raise A2AError("INVALID_PARAMS", "params must be a JSON object")
        form = partial(_result, call_id)
        if call.method == "SendStreamingMessage":
            return await self._calls.send_streaming(request, params, form)
        if call.method == "SubscribeToTask":
            return await self._calls.subscribe(request, (await _params(request, params, TaskParams)).id, form)
        if call.method == "GetExtendedAgentCard":
            raise no_extended_card()
        method = self._methods.get(call.method)
        if method is None:
            names = ", ".join((*self._methods, "SendStreamingMessage", "SubscribeToTask", "GetExtendedAgentCard"))
            raise A2AError(
                "METHOD_NOT_FOUND", f"There is no method {call.method[:64]}; the methods of A2A 1.0 are {names}"
            )
        result = msgspec.json.encode(await method(request, params))
        return Response(200, form(result), (JSON_TYPE, *NO_STORE))

    async def _get(self, request: Request, params: bytes) -> object:
        asked = await _params(request, params, TaskParams)
        check_history_length(asked.history_length, "body")
        return await self._calls.get(request, asked.id, asked.history_length)

    async def _page(self, request: Request, params: bytes) -> object:
        return await self._calls.page(request, await _params(request, params, ListQuery))

    async def _cancel(self, request: Request, params: bytes) -> object:
        return await self._calls.cancel(request, (await _params(request, params, TaskParams)).id)

    async def _create_push(self, request: Request, params: bytes) -> object:
        return await self._calls.create_push(request, (await _params(request, params, PushParams)).task_id, params)

    async def _get_push(self, request: Request, params: bytes) -> object:
        asked = await _params(request, params, PushParams)
        return await self._pushes.get(request.params["address"], asked.task_id, asked.id)

    async def _list_pushes(self, request: Request, params: bytes) -> object:
        return await self._pushes.list(request.params["address"], (await _params(request, params, PushParams)).task_id)

    async def _delete_push(self, request: Request, params: bytes) -> object:
        asked = await _params(request, params, PushParams)
        await self._pushes.delete(request.params["address"], asked.task_id, asked.id)
        return DeletedPush()

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of NETWORK 1."""
        return routes_of("inboxes", ("POST", BASE, self.call), fault=rpc_fault)


async def _read(request: Request) -> RpcCall:
    """Decode the JSON-RPC call in a request. Raises Invalid if the body is not JSON, A2AError if it is not a call.

    A call without an id is refused as well: JSON-RPC does not allow an answer to it, but every A2A method has one. If
    the node ran or dropped such a call silently, a client that forgot the id would get neither a task nor an error.
    """
    try:
        return await decode_in_steps(request, await request.body(), RpcCall)
    except Invalid as invalid:
        issue = invalid.issues[0]
        if issue.type == "json_invalid":
            raise
        why = f"A call must have jsonrpc, method, id and params; {'.'.join(map(str, issue.loc))}: {issue.msg}"
        raise A2AError("INVALID_REQUEST", why) from None


async def _params(request: Request, params: bytes, kind: type[T]) -> T:
    """Decode the params of a call, which may have their JSON names or those of the proto file. Raises Invalid."""
    sent = await decode_in_steps(request, params, _either_name(kind))
    given: dict[str, object] = {}
    for name, other in zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True):
        raw = bytes(getattr(sent, name) or getattr(sent, other))
        if raw:
            is_read = name in READ and len(raw) <= MAX_CONVERTED_BYTES
            given[name] = READ[name](decode(raw, object)) if is_read else msgspec.Raw(raw)
    return decode(msgspec.json.encode(given), kind)


@cache
def _either_name(kind: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """Return a struct with the fields of `kind` under both names, as undecoded JSON. It skips all other members."""
    names = dict.fromkeys((*kind.__struct_encode_fields__, *kind.__struct_fields__))
    return msgspec.defstruct(kind.__name__, [(name, msgspec.Raw, msgspec.Raw()) for name in names])


def _result(call_id: bytes, result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (call_id, result)
