"""JSON-RPC 2.0 as MCP uses it: decodes messages and encodes replies. Independent of MCP methods and of HTTP."""

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
"""The code that other JSON-RPC services use (EIP-1474). MCP defines none."""
TOO_LARGE = -32006
"""The node's own code: the answer exceeds the budget of its POST (`node.mcp.answer_budget`)."""

MAX_ID_BYTES = 1000
"""Maximum size of an id, in bytes of JSON. Every answer repeats the id, so this bounds the size of errors."""

NO_MESSAGE = (
    'Invalid Request: a message must have "jsonrpc": "2.0" and a method; its id, if any, must be a string or an integer'
)

T = TypeVar("T")


class RpcError(Exception):
    """A failure of a request, which becomes a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class RpcRequest(msgspec.Struct, gc=False):
    """A request, a notification (no id) or a response (no method)."""

    jsonrpc: Literal["2.0"]
    id: int | str | UnsetType = UNSET
    """Never null (MCP base protocol), and never a fraction."""
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET

    @property
    def request_id(self) -> int | str | None:
        """The id of a request. None for a notification or a response, which are not answered."""
        return None if isinstance(self.id, UnsetType) or self.method is UNSET else self.id


EMPTY = Raw(b"{}")
BRACE, NULL = b"{n"
"""First byte of an object and of null. Comparing it suffices, because the decoder has checked the rest."""

_message = msgspec.json.Decoder(RpcRequest)
_members = msgspec.json.Decoder(list[Raw])


def is_batch(body: bytes) -> bool:
    """Return whether the body, if it is valid JSON, is a batch of messages."""
    return body.lstrip(b" \t\r\n").startswith(b"[")


def split(body: bytes) -> list[Raw]:
    """Return the members of a batch, undecoded. Raises RpcError."""
    try:
        return _members.decode(_text(body))
    except ValueError:
        raise RpcError(PARSE_ERROR, "Parse error: the body is not valid JSON in UTF-8") from None


def read(body: bytes) -> RpcRequest:
    """Decode one message. Raises RpcError if the body is not JSON, or not a JSON-RPC message."""
    return read_member(_text(body))


def read_member(text: str | Raw) -> RpcRequest:
    """Decode one message after `_text` has checked the whole body. Raises RpcError."""
    try:
        message = _message.decode(text)
    except msgspec.ValidationError:
        raise RpcError(INVALID_REQUEST, NO_MESSAGE) from None
    except ValueError:
        raise RpcError(PARSE_ERROR, "Parse error: the body is not valid JSON in UTF-8") from None
    if message.method is UNSET and message.result is UNSET and message.error is UNSET:
        raise RpcError(INVALID_REQUEST, NO_MESSAGE)
    if not isinstance(message.id, UnsetType) and len(msgspec.json.encode(message.id)) > MAX_ID_BYTES:
        raise RpcError(INVALID_REQUEST, f"Invalid Request: an id may have at most {MAX_ID_BYTES} bytes")
    return message


def object_of(raw: Raw | UnsetType, name: str) -> Raw:
    """Return `raw` if it is an object, an empty object if it is absent or null. Raises RpcError for anything else."""
    if isinstance(raw, UnsetType):
        return EMPTY
    first = memoryview(raw)[0]
    if first == NULL:
        return EMPTY
    if first != BRACE:
        raise RpcError(INVALID_PARAMS, f"Invalid params: {name} must be an object")
    return raw


def read_params(decoder: msgspec.json.Decoder[T], params: Raw) -> T:
    """Decode the params of a method. Raises RpcError."""
    try:
        return decoder.decode(params)
    except msgspec.ValidationError as error:
        raise RpcError(INVALID_PARAMS, f"Invalid params: {error}") from None


def _text(body: bytes) -> str:
    """Return the body as text. Raises RpcError if it is nested too deeply, has too many values or is not UTF-8.

    A typed decoder does not check that: it skips the bytes of unknown members.
    """
    try:
        check_cost(body, object)
        return body.decode()
    except Invalid as invalid:
        raise RpcError(PARSE_ERROR, f"Parse error: {invalid}") from None
    except UnicodeDecodeError:
        raise RpcError(PARSE_ERROR, "Parse error: the body is not valid JSON in UTF-8") from None


def members_of(content: dict[str, object]) -> bytes:
    """Encode a JSON object without its braces, the form in which results are kept: revision 2026-07-28 adds members."""
    return msgspec.json.encode(content)[1:-1]


def reply(request_id: int | str, members: bytes) -> bytes:
    """Return the response whose result has these members."""
    return b'{"jsonrpc":"2.0","id":%b,"result":{%b}}' % (msgspec.json.encode(request_id), members)


def error_reply(request_id: int | str | None, error: RpcError) -> bytes:
    """Return the response with an error. The id is null if none could be decoded."""
    content: dict[str, object] = {"code": error.code, "message": str(error)}
    if error.data is not None:
        content["data"] = error.data
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": content})
