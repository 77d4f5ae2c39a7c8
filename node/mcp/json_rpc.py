"""JSON-RPC 2.0 as MCP uses it: messages in, replies out. Knows no MCP method and no HTTP."""

from typing import Literal

import msgspec

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
HEADER_MISMATCH = -32020
VERSION_NOT_SERVED = -32022
LIMIT_EXCEEDED = -32005
"""As JSON-RPC services have it elsewhere (EIP-1474); MCP has no code of its own."""
TOO_LARGE = -32006
"""Ours: an answer that its way does not carry."""

Raw = msgspec.Raw
Unset = msgspec.UnsetType
UNSET = msgspec.UNSET
Id = int | str | Unset
"""What a request is known by. Never null (MCP basic protocol), and a fraction is no id."""

MAX_ID = 1000
"""Bytes of an id, as JSON: it is in every answer, also in one that is short because it has to be."""


class RpcError(Exception):
    """A request that ends in a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class RpcRequest(msgspec.Struct, gc=False):
    """A request, a notification (no id) or a response (no method)."""

    jsonrpc: Literal["2.0"]
    id: Id = UNSET
    method: str | Unset = UNSET
    params: Raw | Unset = UNSET
    result: Raw | Unset = UNSET
    error: Raw | Unset = UNSET


EMPTY = Raw(b"{}")
BRACE, NULL = b"{n"
"""First bytes of an object and of null: a decoder has seen that they are whole."""

_encode = msgspec.json.Encoder().encode
_message = msgspec.json.Decoder(RpcRequest)
_members = msgspec.json.Decoder(list[Raw])


def split(body: bytes) -> bytes | list[Raw]:
    """One message as it came, or the members of a batch. Raises RpcError."""
    if not body.lstrip(b" \t\r\n").startswith(b"["):
        return body
    try:
        return _members.decode(_text(body))
    except (ValueError, RecursionError):
        raise RpcError(PARSE_ERROR, "Parse error") from None


def read(body: bytes) -> RpcRequest:
    """One message. Raises RpcError for what is not JSON, and for JSON that is no message."""
    try:
        message = _message.decode(_text(body))
    except msgspec.ValidationError:
        raise RpcError(INVALID_REQUEST, "Invalid Request") from None
    except (ValueError, RecursionError):
        raise RpcError(PARSE_ERROR, "Parse error") from None
    if message.method is UNSET and message.result is UNSET and message.error is UNSET:
        raise RpcError(INVALID_REQUEST, "Invalid Request")
    if not isinstance(message.id, Unset) and len(_encode(message.id)) > MAX_ID:
        raise RpcError(INVALID_REQUEST, f"Invalid Request: an id has at most {MAX_ID} bytes")
    return message


def object_of(raw: Raw | Unset, name: str) -> Raw:
    """What must be an object if it is there; absent and null count as an empty one. Raises RpcError."""
    if isinstance(raw, Unset):
        return EMPTY
    first = memoryview(raw)[0]
    if first == NULL:
        return EMPTY
    if first != BRACE:
        raise RpcError(INVALID_PARAMS, f"Invalid params: {name} must be an object")
    return raw


def _text(body: bytes) -> str:
    """Typed decoding skips over parts without looking at their bytes, so these are looked at first."""
    return str(body, "utf-8")


def reply(request_id: int | str, result: bytes) -> bytes:
    """The response that carries `result`, which is a JSON object."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_encode(request_id), result)


def error_reply(request_id: int | str | None, error: RpcError) -> bytes:
    """The response that says what went wrong; the id is null where none could be read."""
    content: dict[str, object] = {"code": error.code, "message": str(error)}
    if error.data is not None:
        content["data"] = error.data
    return _encode({"jsonrpc": "2.0", "id": request_id, "error": content})
