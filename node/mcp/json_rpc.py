"""JSON-RPC 2.0 as MCP uses it: requests are read, replies written. Knows no MCP method and no HTTP."""

from typing import Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from node.common.refusal import Invalid
from node.web.json_cost import check_cost

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
HEADER_MISMATCH = -32020
VERSION_NOT_SERVED = -32022
LIMIT_EXCEEDED = -32005
"""The code of other JSON-RPC services (EIP-1474); MCP defines none."""
TOO_LARGE = -32006
"""Ours: the answer is longer than its transport carries (`node.mcp.answer_budget`)."""

MAX_ID_BYTES = 1000
"""Bytes of an id as JSON. Every answer repeats it, so it bounds how short an error can be."""

NO_MESSAGE = (
    'Invalid Request: a message has "jsonrpc": "2.0" and a method, and its id, if it has one, is a string or an integer'
)

T = TypeVar("T")


class RpcError(Exception):
    """The JSON-RPC error that a request ends in."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class RpcRequest(msgspec.Struct, gc=False):
    """A request, a notification (no id) or a response (no method)."""

    jsonrpc: Literal["2.0"]
    id: int | str | UnsetType = UNSET
    """Never null (MCP base protocol), and no fraction."""
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET

    @property
    def request_id(self) -> int | str | None:
        """Its id if it is a request, which is answered; None of a notification or a response."""
        return None if isinstance(self.id, UnsetType) or self.method is UNSET else self.id


EMPTY = Raw(b"{}")
BRACE, NULL = b"{n"
"""First bytes of an object and of null. One is enough: the decoder has checked the rest."""

_message = msgspec.json.Decoder(RpcRequest)
_members = msgspec.json.Decoder(list[Raw])


def is_batch(body: bytes) -> bool:
    """Whether the body is a batch of messages, if it is JSON."""
    return body.lstrip(b" \t\r\n").startswith(b"[")


def split(body: bytes) -> list[Raw]:
    """The members of a batch. Raises RpcError."""
    try:
        return _members.decode(_text(body))
    except ValueError:
        raise RpcError(PARSE_ERROR, "Parse error") from None


def read(body: bytes) -> RpcRequest:
    """One message. Raises RpcError if it is not JSON, or not a JSON-RPC message."""
    return read_member(_text(body))


def read_member(text: str | Raw) -> RpcRequest:
    """One message, whose encoding and depth were looked at before, with those of its batch. Raises RpcError."""
    try:
        message = _message.decode(text)
    except msgspec.ValidationError:
        raise RpcError(INVALID_REQUEST, NO_MESSAGE) from None
    except ValueError:
        raise RpcError(PARSE_ERROR, "Parse error") from None
    if message.method is UNSET and message.result is UNSET and message.error is UNSET:
        raise RpcError(INVALID_REQUEST, NO_MESSAGE)
    if not isinstance(message.id, UnsetType) and len(msgspec.json.encode(message.id)) > MAX_ID_BYTES:
        raise RpcError(INVALID_REQUEST, f"Invalid Request: an id has at most {MAX_ID_BYTES} bytes")
    return message


def object_of(raw: Raw | UnsetType, name: str) -> Raw:
    """`raw` if it is an object; absent and null count as an empty one. Raises RpcError."""
    if isinstance(raw, UnsetType):
        return EMPTY
    first = memoryview(raw)[0]
    if first == NULL:
        return EMPTY
    if first != BRACE:
        raise RpcError(INVALID_PARAMS, f"Invalid params: {name} must be an object")
    return raw


def read_params(decoder: msgspec.json.Decoder[T], params: Raw) -> T:
    """The params of a method. Raises RpcError."""
    try:
        return decoder.decode(params)
    except msgspec.ValidationError as error:
        raise RpcError(INVALID_PARAMS, f"Invalid params: {error}") from None


def _text(body: bytes) -> str:
    """The body as text. Raises RpcError for one that is nested too deep, has too many parts or is not UTF-8: typed
    decoding alone would skip the bytes of unknown members."""
    try:
        check_cost(body, object)
        return body.decode()
    except Invalid as invalid:
        raise RpcError(PARSE_ERROR, f"Parse error: {invalid}") from None
    except UnicodeDecodeError:
        raise RpcError(PARSE_ERROR, "Parse error") from None


def members_of(content: dict[str, object]) -> bytes:
    """A JSON object without its braces, as results are kept: revision 2026-07-28 adds members of its own."""
    return msgspec.json.encode(content)[1:-1]


def reply(request_id: int | str, members: bytes) -> bytes:
    """The response whose result has these members."""
    return b'{"jsonrpc":"2.0","id":%b,"result":{%b}}' % (msgspec.json.encode(request_id), members)


def error_reply(request_id: int | str | None, error: RpcError) -> bytes:
    """The response with an error; the id is null where none could be read."""
    content: dict[str, object] = {"code": error.code, "message": str(error)}
    if error.data is not None:
        content["data"] = error.data
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": content})
