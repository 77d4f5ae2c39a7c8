"""tools/call: converts the arguments into a request to the tool's operation, and the answer into the tool's result.

The operation validates the arguments. Checked here are only unknown arguments, and missing path parameters and
credentials, about which the operation's own error would speak in terms of HTTP.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from functools import cache
from http.client import NO_CONTENT, UNAUTHORIZED
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import asdict, fields

from node.mcp.json_rpc import EMPTY, INVALID_PARAMS, RpcError, object_of, read_params
from node.mcp.operations import Operations, call_operation
from node.mcp.tool import Tool
from node.mcp.tool_result import NOTHING, SILENCED, failure, invalid, success
from node.mcp.tool_schema import input_schema
from node.sign.digest import read_sha256
from node.web.http import Header, Request
from node.web.issues import digits_of
from node.web.json_schema import Schema
from node.web.route import Route

QUOTE = b'"'
IDEMPOTENCY_KEY = "idempotency_key"

EMPTY_VALUES = frozenset({b'""', b"[]", b"{}"})
"""The JSON of an empty string, list and object, as clients write it."""

MAX_HEAD_BYTES = 8 * 1024
"""Maximum size of the arguments that become path, query and headers of the operation's request, in bytes of JSON.
Escaped, they fit into what HTTP allows. Parsing a mebibyte of arguments, a query of 3 MB with escapes, blocked the
process for seconds."""

MAX_SHARED_BYTES = 64 * 1024
"""Maximum size of an answer whose result is kept for other callers, in bytes."""

QUOTED_CHARACTERS = 60
"""How much of an unknown argument's name, or of a value that is not a number, an error repeats, in characters."""

_INTEGER = re.compile(rb"-?\d+")


class CallParams(msgspec.Struct, gc=False):
    """The params of tools/call; `_meta` is ignored."""

    name: str
    arguments: Raw | UnsetType = UNSET


class BadArguments(Exception):
    """Arguments that cannot be converted into a request. The message names the argument."""


Arguments = dict[str, Raw]
OperationArguments = tuple[dict[str, str], str, bytes, Sequence[Header]]
"""Path parameters, query string, body and headers of an operation's request."""

_params = msgspec.json.Decoder(CallParams)
_string = msgspec.json.Decoder(str)


class BoundTool:
    """A tool bound to its operation: which argument becomes which part of the operation's request."""

    def __init__(self, tool: Tool, path: str, query: type[msgspec.Struct] | None, body: Any) -> None:
        """`path`, `query`, `body`: as in the operation's route."""
        self.tool = tool
        self.in_path = tuple(name for name in tool.inputs if f"{{{name}}}" in path)
        taken = query.__struct_fields__ if query else ()
        self.in_query = frozenset(name for name in tool.inputs if name in taken)
        in_body = {member.encode_name for member in fields(body)} if body else set[str]()
        self.in_headers = [name for name in tool.inputs if name not in in_body.union(self.in_path, self.in_query)]
        self.in_head = self.in_query.union(self.in_path, self.in_headers)
        """Arguments that become part of the path, query or headers, not of the body."""
        self.fixed_query = [f"{name}={quote(value)}" for name, value in tool.query.items()]
        tokens = [name for name in self.in_headers if name != IDEMPOTENCY_KEY]
        if not all(name.endswith("_token") for name in tokens):
            raise ValueError(f"{tool.name}: {tool.operation} does not take all of {', '.join(tokens)}")
        self.token = next(iter(tokens), "")
        """Name of the argument that is sent as a token; empty if there is none."""
        self.needed = {*self.in_path, *(() if tool.optional_token else tokens)}
        """Arguments without which no request can be made."""
        shown = [] if tool.optional_token else [name for name in tool.inputs if name.endswith("_token")]
        self.input_schema = input_schema(tool, query, body, {*self.needed, *shown})
        self.is_shared = tool.reads and body is None and not self.in_path and not self.token
        """Whether many callers get the same answer: the tool is read-only, and takes no id, token or body."""
        self.has_digest = "digest_sha256" in tool.inputs
        required = self.input_schema.get("required", ())
        types = {name: member.get("type") for name, member in self.input_schema["properties"].items()}
        clearable = _clearable(body)
        self.emptied = clearable if tool.empty_clears else frozenset[str]()
        """Arguments whose empty value is sent as null."""
        members = [(name, Raw | UnsetType, UNSET) for name in tool.inputs]
        self.decoder = msgspec.json.Decoder(msgspec.defstruct(tool.name, members, forbid_unknown_fields=True))
        """Decoder of the arguments. It stops at the first unknown one: decoding 80,000 unknown ones takes 20 ms."""
        self.optional = {name for name, kind in types.items() if kind and name not in required} - clearable
        """Arguments for which null means that they are not given."""
        self.numbers = {name: types[name] for name in self.in_query if types[name] in ("integer", "number")}
        """Types of the numbers in the query string, by argument. Numbers in a body are checked by the operation."""
        self.without_arguments: OperationArguments | None = None
        """The request of a call without arguments, made once since such calls are frequent; None if some are required.
        """
        if not required:
            self.without_arguments = _request(self, EMPTY)

    def listed(self) -> Schema:
        """Return the tool as tools/list shows it. Every hint is set, since a missing destructiveHint means true."""
        tool = self.tool
        return {
            "name": tool.name,
            "title": tool.title,
            "description": tool.description,
            "inputSchema": self.input_schema,
            "annotations": {
                "title": tool.title,
                "readOnlyHint": tool.reads,
                "destructiveHint": tool.destroys,
                "idempotentHint": tool.reads or tool.repeatable,
                "openWorldHint": tool.meets_others,
            },
        }


@cache
def _bound(tool: Tool, path: str, query: type[msgspec.Struct] | None, body: Any) -> BoundTool:
    """Return the BoundTool, cached for all nodes in the process: making all tools is two thirds of a node's start."""
    return BoundTool(tool, path, query, body)


class ToolCalls:
    """Calls tools. Each call counts against the limit of its operation as well as against that of MCP."""

    def __init__(self, tools: Sequence[Tool], operations: Operations) -> None:
        routes = ((tool, operations[tool.operation]) for tool in tools)
        self._tools = {tool.name: (_bound(tool, route.path, route.query, route.body), route) for tool, route in routes}
        self.shared: dict[str, tuple[bytes, bytes]] = {}
        """The latest shared answer and the result made from it, by tool name. All callers at one time get the same
        answer object (`node.common.shared_reads`)."""

    def listed(self) -> list[Schema]:
        """Return the tools as tools/list shows them."""
        return [bound.listed() for bound, _ in self._tools.values()]

    async def call(self, params: Raw, request: Request) -> bytes:
        """Return the members of a CallToolResult. Raises RpcError for an unknown tool or malformed params."""
        bound, route, arguments = self._read(params)
        try:
            path, query, body, headers = _request(bound, arguments)
        except BadArguments as wrong:
            return invalid(str(wrong))
        response = await call_operation(request, route, params=path, query=query, body=body, headers=headers)
        if response.status == UNAUTHORIZED and bound.token:  # the operation's own error names the header
            return failure(response, f"Give {bound.token}: only those who have it may do this.")
        if response.status >= 400:
            return failure(response)
        if response.status == NO_CONTENT:
            return NOTHING
        if not response.body:
            return SILENCED
        return await (self._shared(bound.tool, response.body) if bound.is_shared else success(response.body))

    async def _shared(self, tool: Tool, body: bytes) -> bytes:
        """Return `success`, computed once for all callers that got the same answer object."""
        latest, result = self.shared.get(tool.name, (b"", b""))
        if latest is not body:
            result = await success(body)
            if len(body) <= MAX_SHARED_BYTES:
                self.shared[tool.name] = body, result
        return result

    def _read(self, params: Raw) -> tuple[BoundTool, Route, Raw]:
        call = read_params(_params, params)
        found = self._tools.get(call.name)
        if found is None:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {call.name}")
        return *found, object_of(call.arguments, "arguments")


def _request(bound: BoundTool, raw: Raw) -> OperationArguments:
    """Convert the arguments into the parts of the operation's request. Raises BadArguments."""
    if raw == EMPTY and bound.without_arguments is not None:
        return bound.without_arguments
    if bound.tool.open_inputs:
        return {}, "", bytes(raw), ()
    arguments = _known(bound, raw)
    path = {name: _text(name, arguments) for name in bound.in_path}
    headers = [_header(name, arguments) for name in bound.in_headers if name in arguments or name in bound.needed]
    given = [f"{name}={quote(_query_text(name, bound, arguments))}" for name in bound.in_query & arguments.keys()]
    query = "&".join([*bound.fixed_query, *given])
    if bound.has_digest:
        headers.append(_content_digest(arguments))
    return path, query, msgspec.json.encode(arguments), headers


def _known(bound: BoundTool, raw: Raw) -> Arguments:
    """Return the arguments by name, in the form that the operation takes. Raises BadArguments.

    Frameworks send null for an optional argument that is not given, and some send 5.0 for an integer, which JSON
    Schema allows but the query string does not.
    """
    try:
        given = bound.decoder.decode(raw)
    except msgspec.ValidationError as error:
        unknown = str(error).partition("`")[2][:-1]
        takes = ", ".join(bound.tool.inputs) or "no arguments"
        raise BadArguments(f"{unknown[:QUOTED_CHARACTERS]}: unknown; this tool takes {takes}") from None
    arguments = {name: value for name, value in asdict(given).items() if value is not UNSET}
    in_head = {name: len(arguments[name]) for name in bound.in_head & arguments.keys()}
    if sum(in_head.values()) > MAX_HEAD_BYTES:
        raise BadArguments(f"{max(in_head, key=in_head.__getitem__)}: too long")
    for name, value in list(arguments.items()):
        text = bytes(value)
        if text == b"null" and name in bound.optional:
            del arguments[name]
        elif text in EMPTY_VALUES and name in bound.emptied:
            arguments[name] = Raw(b"null")
        elif name in bound.numbers and not text.startswith(QUOTE):
            arguments[name] = Raw(_number(name, bound.numbers[name], text))
    for name, choices in bound.tool.choices.items():
        if name in arguments and bytes(arguments[name]) not in map(msgspec.json.encode, choices):
            raise BadArguments(f"{name}: must be one of {', '.join(choices)}")
    return arguments


def _number(name: str, kind: str, text: bytes) -> bytes:
    """Return a number in the form that the query string takes. JSON Schema allows `5.0` and `5e0` as integers.

    Raises BadArguments.
    """
    is_number = text[:1] in b"-0123456789"
    if is_number and (kind == "number" or _INTEGER.fullmatch(text)):
        return text
    if digits := digits_of(text):
        return digits
    shown = text[:QUOTED_CHARACTERS].decode(errors="ignore")
    raise BadArguments(f"{name}: must be {'an' if kind == 'integer' else 'a'} {kind}, not {shown}")


def _clearable(body: Any) -> frozenset[str]:
    """Return the members of a body that null clears, and that stay as they are if they are left out."""
    members = fields(body) if body else ()
    return frozenset(member.encode_name for member in members if member.default is UNSET)


def _header(name: str, arguments: Arguments) -> Header:
    """Remove an argument that is sent as a header, and return the header. Raises BadArguments."""
    try:
        text = _text(name, arguments).encode("ascii")
    except UnicodeEncodeError:
        raise BadArguments(f"{name}: must be ASCII") from None
    return (b"idempotency-key", text) if name == IDEMPOTENCY_KEY else (b"authorization", b"Bearer " + text)


def _text(name: str, arguments: Arguments) -> str:
    """Remove an argument that must be a string, and return it. Raises BadArguments."""
    raw = arguments.pop(name, None)
    if raw is None:
        raise BadArguments(f"{name}: Field required")
    try:
        return _string.decode(raw)
    except msgspec.ValidationError as error:
        raise BadArguments(f"{name}: {error}") from None


def _query_text(name: str, bound: BoundTool, arguments: Arguments) -> str:
    """Remove an argument of the query, and return it: a string, or a number as it is written in JSON."""
    is_number = name in bound.numbers and not bytes(arguments[name]).startswith(QUOTE)
    return bytes(arguments.pop(name)).decode() if is_number else _text(name, arguments)


def _content_digest(arguments: Mapping[str, Raw]) -> Header:
    """Return the Content-Digest header (RFC 9530), which registering an artifact requires. Raises BadArguments."""
    try:
        digest = read_sha256(_string.decode(arguments.get("digest_sha256", Raw(b'""'))))
    except ValueError:  # not a string, or not a digest
        what = "digest_sha256: must be the SHA-256 of the bytes as 64 hexadecimal digits, or base64"
        raise BadArguments(what) from None
    return (b"content-digest", b"sha-256=:%b:" % base64.b64encode(digest))
