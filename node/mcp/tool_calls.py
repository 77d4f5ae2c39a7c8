"""tools/call: arguments become a request to the tool's operation, its answer becomes the tool's result.

Arguments are judged by the operation. What is checked here is what HTTP has no place for: unknown
names, and path parameters that are missing.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from urllib.parse import quote

import msgspec

from node.mcp.json_rpc import INVALID_PARAMS, UNSET, Raw, RpcError, Unset, object_of
from node.mcp.operations import Operations
from node.mcp.tool_result import SILENCED, failure, invalid, success
from node.mcp.tools import Tool
from node.web.http import Header, Request
from node.web.route import Route

QUOTE = b'"'

SHOWN = 60
"""Characters of an unknown argument's name that are told back."""


class CallParams(msgspec.Struct, gc=False):
    """The params of tools/call; `_meta` is ignored."""

    name: str
    arguments: Raw | Unset = UNSET


class BadArguments(Exception):
    """Arguments that cannot become a request; the message names them."""


Arguments = dict[str, Raw]

_params = msgspec.json.Decoder(CallParams)
_arguments = msgspec.json.Decoder(Arguments)
_string = msgspec.json.Decoder(str)
_encode = msgspec.json.Encoder().encode


class Bound:
    """A tool with the operation that it calls."""

    def __init__(self, tool: Tool, route: Route) -> None:
        self.tool = tool
        self.route = route
        self.in_path = tuple(name for name in tool.inputs if f"{{{name}}}" in route.path)
        self.has_query = route.method == "GET"
        self.always = [f"{name}={quote(value)}" for name, value in tool.query.items()]
        self.has_digest = "digest_sha256" in tool.inputs
        kinds = {name: schema.get("type") for name, schema in tool.inputs.items()}
        self.optional = {name for name, kind in kinds.items() if kind and name not in tool.required}
        self.whole = {name for name, kind in kinds.items() if kind == "integer"}


class ToolCalls:
    """Calls tools; each call counts in the limit of its operation, too."""

    def __init__(self, tools: Sequence[Tool], operations: Operations) -> None:
        """Tools whose operation this node does not have are left out."""
        self._operations = operations
        self._bound: dict[str, Bound] = {}
        for tool in tools:
            if (route := operations.find(tool.method, tool.path)) is not None:
                self._bound[tool.name] = Bound(tool, route)
        self.tools: list[Tool] = [bound.tool for bound in self._bound.values()]

    async def call(self, params: Raw, request: Request) -> bytes:
        """The members of a CallToolResult. Raises RpcError if there is no such tool, or no object of arguments."""
        bound, arguments = self._read(params)
        try:
            path, query, body, headers = _request(bound, arguments)
        except BadArguments as wrong:
            return invalid(str(wrong))
        response = await self._operations.call(
            request, bound.route, params=path, query=query, body=body, headers=headers
        )
        if response.status >= 400:
            return failure(response)
        return success(response.body) if response.body else SILENCED

    def _read(self, params: Raw) -> tuple[Bound, Raw]:
        try:
            call = _params.decode(params)
        except msgspec.ValidationError as error:
            raise RpcError(INVALID_PARAMS, f"Invalid params: {error}") from None
        bound = self._bound.get(call.name)
        if bound is None:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {call.name}")
        return bound, object_of(call.arguments, "arguments")


def _request(bound: Bound, raw: Raw) -> tuple[dict[str, str], str, bytes, Sequence[Header]]:
    """Path parameters, query string, body and headers of the request that the arguments ask for."""
    if bound.tool.open_inputs:
        return {}, "", bytes(raw), ()
    arguments = _known(bound, raw)
    path = {name: _path_parameter(name, arguments) for name in bound.in_path}
    if bound.has_query:
        return path, _query(bound.always, arguments), b"", ()
    return path, "", _encode(arguments), (_content_digest(arguments),) if bound.has_digest else ()


def _known(bound: Bound, raw: Raw) -> Arguments:
    """The arguments by name, as the operation takes them.

    Frameworks send null for what is optional, and some 5.0 for 5, which JSON Schema calls an integer.
    """
    arguments = _arguments.decode(raw)
    unknown = [name[:SHOWN] for name in arguments if name not in bound.tool.inputs]
    if unknown:
        takes = ", ".join(bound.tool.inputs) or "no arguments"
        raise BadArguments(f"{', '.join(unknown[:3])}: unknown; this tool takes {takes}")
    for name, value in list(arguments.items()):
        text = bytes(value)
        if text == b"null" and name in bound.optional:
            del arguments[name]
        elif name in bound.whole and text.endswith(b".0"):
            arguments[name] = Raw(text[:-2])
    return arguments


def _path_parameter(name: str, arguments: Arguments) -> str:
    raw = arguments.pop(name, None)
    if raw is None:
        raise BadArguments(f"{name}: Field required")
    try:
        return _string.decode(raw)
    except msgspec.ValidationError as error:
        raise BadArguments(f"{name}: {error}") from None


def _query(always: Sequence[str], arguments: Mapping[str, Raw]) -> str:
    """Values that are no strings are sent as their JSON; the operation says what it thinks of them."""
    given = [
        f"{name}={quote(_string.decode(raw) if bytes(raw).startswith(QUOTE) else bytes(raw))}"
        for name, raw in arguments.items()
    ]
    return "&".join([*always, *given])


def _content_digest(arguments: Mapping[str, Raw]) -> Header:
    """The header that the registration of an artifact needs beside its body (RFC 9530)."""
    raw = arguments.get("digest_sha256", Raw(b'""'))
    try:
        digest = _sha256(_string.decode(raw))
    except ValueError:  # not a string, or not a digest
        raise BadArguments(
            "digest_sha256: must be the SHA-256 of the bytes as 64 hexadecimal digits, or base64"
        ) from None
    return (b"content-digest", b"sha-256=:%b:" % base64.b64encode(digest))


def _sha256(text: str) -> bytes:
    try:
        digest = bytes.fromhex(text) if len(text) == 64 else base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(text) from error
    if len(digest) != 32:
        raise ValueError(text)
    return digest
