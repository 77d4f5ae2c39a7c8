"""tools/call: arguments become a request to the tool's operation, its answer becomes the tool's result.

Arguments are judged by the operation. What is checked here is what HTTP has no place for: unknown
names, and path parameters that are missing.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from urllib.parse import quote

import msgspec

from node.mcp.inner import Operations
from node.mcp.outcome import SILENCED, failure, invalid, success
from node.mcp.rpc import INVALID_PARAMS, UNSET, Raw, RpcError, Unset, object_of
from node.mcp.tools import Tool
from node.refusal import Refused
from node.store import StoreUnavailable
from node.web.errors import response_to
from node.web.http import Header, Request
from node.web.limits import Limiter
from node.web.route import Route

LIMIT = "mcp"
QUOTE = b'"'


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
        self.digest = "digest_sha256" in tool.inputs


class ToolCalls:
    """Calls tools; each call counts in the client's `mcp` limit beside the operation's own."""

    def __init__(self, tools: Sequence[Tool], operations: Operations, limiter: Limiter) -> None:
        """Tools whose operation this node does not have are left out."""
        self._operations = operations
        self._limiter = limiter
        self._bound: dict[str, Bound] = {}
        for tool in tools:
            if (route := operations.find(tool.method, tool.path)) is not None:
                self._bound[tool.name] = Bound(tool, route)
        self.tools: list[Tool] = [bound.tool for bound in self._bound.values()]

    async def call(self, params: Raw, request: Request) -> bytes:
        """The members of a CallToolResult. Raises RpcError if there is no such tool, or no object of arguments."""
        bound, arguments = self._read(params)
        # Of the calls in a batch the last one tells where the client stands.
        request.notes.clear()
        try:
            await self._limiter.take(request, LIMIT)
        except (Refused, StoreUnavailable) as refused:
            return failure(response_to(request, refused))
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
    arguments = _arguments.decode(raw)
    known = bound.tool.inputs
    unknown = [name for name in arguments if name not in known]
    if unknown:
        takes = ", ".join(known) or "no arguments"
        raise BadArguments(f"{', '.join(unknown)}: unknown; this tool takes {takes}")
    path = {name: _path_parameter(name, arguments) for name in bound.in_path}
    if bound.has_query:
        return path, _query(bound.always, arguments), b"", ()
    body = _encode(arguments) if path else bytes(raw)
    return path, "", body, (_content_digest(arguments),) if bound.digest else ()


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
