"""tools/call: the arguments become a request to the tool's operation, and its answer becomes the tool's result.

The operation validates the arguments. Only what HTTP has no place for is checked here: unknown names, and missing
parameters of the path and credentials, which the operation would name in the words of HTTP.
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
"""Empty values as clients write them: of a text, a list, an object."""

MAX_HEAD_BYTES = 8 * 1024
"""Bytes, as JSON, of the arguments that become path, query and headers of the operation's request. Escaped, they fit
into what HTTP takes of these. In a query of 3 MB, parsing the escapes of a mebibyte held up the process for seconds."""

MAX_SHARED_BYTES = 64 * 1024
"""Bytes of the longest answer whose result is kept for other callers."""

QUOTED_CHARACTERS = 60
"""Characters of an unknown argument's name, or of a value that is no number, that the error repeats."""

_INTEGER = re.compile(rb"-?\d+")


class CallParams(msgspec.Struct, gc=False):
    """The params of tools/call; `_meta` is ignored."""

    name: str
    arguments: Raw | UnsetType = UNSET


class BadArguments(Exception):
    """Arguments of which no request can be made; the message names them."""


Arguments = dict[str, Raw]
OperationArguments = tuple[dict[str, str], str, bytes, Sequence[Header]]
"""Path parameters, query string, body and headers of an operation's request."""

_params = msgspec.json.Decoder(CallParams)
_string = msgspec.json.Decoder(str)


class BoundTool:
    """A tool and what the operation that it calls takes."""

    def __init__(self, tool: Tool, path: str, query: type[msgspec.Struct] | None, body: Any) -> None:
        """`path`, `query`, `body`: those of the operation's route."""
        self.tool = tool
        self.in_path = tuple(name for name in tool.inputs if f"{{{name}}}" in path)
        taken = query.__struct_fields__ if query else ()
        self.in_query = frozenset(name for name in tool.inputs if name in taken)
        in_body = {member.encode_name for member in fields(body)} if body else set[str]()
        self.in_headers = [name for name in tool.inputs if name not in in_body.union(self.in_path, self.in_query)]
        self.in_head = self.in_query.union(self.in_path, self.in_headers)
        """Arguments that become no part of the body."""
        self.fixed_query = [f"{name}={quote(value)}" for name, value in tool.query.items()]
        tokens = [name for name in self.in_headers if name != IDEMPOTENCY_KEY]
        if not all(name.endswith("_token") for name in tokens):
            raise ValueError(f"{tool.name}: {tool.operation} does not take all of {', '.join(tokens)}")
        self.token = next(iter(tokens), "")
        """The argument that is sent as a token; empty if there is none."""
        self.needed = {*self.in_path, *(() if tool.optional_token else tokens)}
        """The arguments that no request can be made without."""
        shown = [] if tool.optional_token else [name for name in tool.inputs if name.endswith("_token")]
        self.input_schema = input_schema(tool, query, body, {*self.needed, *shown})
        self.is_shared = tool.reads and body is None and not self.in_path and not self.token
        """Whether many get the same answer: it needs no id, no token and no query."""
        self.has_digest = "digest_sha256" in tool.inputs
        required = self.input_schema.get("required", ())
        types = {name: member.get("type") for name, member in self.input_schema["properties"].items()}
        clearable = _clearable(body)
        self.emptied = clearable if tool.empty_clears else frozenset[str]()
        """Arguments whose empty value is sent as null."""
        members = [(name, Raw | UnsetType, UNSET) for name in tool.inputs]
        self.decoder = msgspec.json.Decoder(msgspec.defstruct(tool.name, members, forbid_unknown_fields=True))
        """Of the arguments. It stops at the first one that is unknown: 80,000 of them take 20 ms."""
        self.optional = {name for name, kind in types.items() if kind and name not in required} - clearable
        """Arguments for which null only says that they are not given."""
        self.numbers = {name: types[name] for name in self.in_query if types[name] in ("integer", "number")}
        """The types of numbers that become part of the query string; of a body, the operation says what it has got."""
        self.without_arguments: OperationArguments | None = None
        """What every call without arguments asks for, which many are; None if some are required."""
        if not required:
            self.without_arguments = _request(self, EMPTY)

    def listed(self) -> Schema:
        """The tool as tools/list shows it. Every hint is set: a missing destructiveHint counts as true."""
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
    """Made once a process, however many nodes it has: to make all tools is two thirds of a node's start."""
    return BoundTool(tool, path, query, body)


class ToolCalls:
    """Calls tools. Each call counts against the limit of its operation as well as against that of MCP."""

    def __init__(self, tools: Sequence[Tool], operations: Operations) -> None:
        routes = ((tool, operations[tool.operation]) for tool in tools)
        self._tools = {tool.name: (_bound(tool, route.path, route.query, route.body), route) for tool, route in routes}
        self.shared: dict[str, tuple[bytes, bytes]] = {}
        """The last answer that many may get, and the result made of it, by tool: all who ask at one time get the same
        one (`node.common.shared_reads`)."""

    def listed(self) -> list[Schema]:
        """As tools/list shows them."""
        return [bound.listed() for bound, _ in self._tools.values()]

    async def call(self, params: Raw, request: Request) -> bytes:
        """The members of a CallToolResult. Raises RpcError if there is no such tool, or no object of arguments."""
        bound, route, arguments = self._read(params)
        try:
            path, query, body, headers = _request(bound, arguments)
        except BadArguments as wrong:
            return invalid(str(wrong))
        response = await call_operation(request, route, params=path, query=query, body=body, headers=headers)
        if response.status == UNAUTHORIZED and bound.token:  # the operation says in which header it belongs
            return failure(response, f"Give {bound.token}: only who has it may do this.")
        if response.status >= 400:
            return failure(response)
        if response.status == NO_CONTENT:
            return NOTHING
        if not response.body:
            return SILENCED
        return await (self._shared(bound.tool, response.body) if bound.is_shared else success(response.body))

    async def _shared(self, tool: Tool, body: bytes) -> bytes:
        """`success`, made once for all who get the very same answer."""
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
    """The request that the arguments ask for. Raises BadArguments."""
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
    """The arguments by name, in the form that the operation takes.

    Frameworks send null for an optional argument that is not given, and some send 5.0 for an integer, which JSON
    Schema allows and a query string does not.
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
    """A number as a query string takes it. JSON Schema takes `5.0` and `5e0` for integers. Raises BadArguments."""
    is_number = text[:1] in b"-0123456789"
    if is_number and (kind == "number" or _INTEGER.fullmatch(text)):
        return text
    if digits := digits_of(text):
        return digits
    shown = text[:QUOTED_CHARACTERS].decode(errors="ignore")
    raise BadArguments(f"{name}: must be {'an' if kind == 'integer' else 'a'} {kind}, not {shown}")


def _clearable(body: Any) -> frozenset[str]:
    """Members of a body that null clears, where they would stay as they are if they were left out."""
    members = fields(body) if body else ()
    return frozenset(member.encode_name for member in members if member.default is UNSET)


def _header(name: str, arguments: Arguments) -> Header:
    """Take out an argument that is sent as a header."""
    try:
        text = _text(name, arguments).encode("ascii")
    except UnicodeEncodeError:
        raise BadArguments(f"{name}: must be ASCII") from None
    return (b"idempotency-key", text) if name == IDEMPOTENCY_KEY else (b"authorization", b"Bearer " + text)


def _text(name: str, arguments: Arguments) -> str:
    """Take out an argument that is a string."""
    raw = arguments.pop(name, None)
    if raw is None:
        raise BadArguments(f"{name}: Field required")
    try:
        return _string.decode(raw)
    except msgspec.ValidationError as error:
        raise BadArguments(f"{name}: {error}") from None


def _query_text(name: str, bound: BoundTool, arguments: Arguments) -> str:
    """Take out an argument of the query: a string, or a number as it was written."""
    is_number = name in bound.numbers and not bytes(arguments[name]).startswith(QUOTE)
    return bytes(arguments.pop(name)).decode() if is_number else _text(name, arguments)


def _content_digest(arguments: Mapping[str, Raw]) -> Header:
    """The header that the registration of an artifact needs in addition to its body (RFC 9530)."""
    try:
        digest = read_sha256(_string.decode(arguments.get("digest_sha256", Raw(b'""'))))
    except ValueError:  # not a string, or no digest
        what = "digest_sha256: must be the SHA-256 of the bytes as 64 hexadecimal digits, or base64"
        raise BadArguments(what) from None
    return (b"content-digest", b"sha-256=:%b:" % base64.b64encode(digest))
