"""What is particular to revision 2026-07-28: the checks of a request, and the frame of a result.

It has no handshake. Each request says its revision in `_meta`, and headers repeat parts of the body. Its methods are in
`node.mcp.server`.
"""

import base64

import msgspec

from node.mcp.json_rpc import HEADER_MISMATCH, INVALID_PARAMS, VERSION_NOT_SERVED, Raw, RpcError, RpcRequest
from node.mcp.versions import SERVER_INFO, STATELESS

_NAME_PARAMETERS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter that the header Mcp-Name repeats, by method."""

_BASE64_START, _BASE64_END = "=?base64?", "?="
"""Around a header value that is not plain ASCII."""


class Meta(msgspec.Struct):
    """The required members of a request's `_meta`."""

    version: str = msgspec.field(name="io.modelcontextprotocol/protocolVersion")
    capabilities: dict[str, Raw] = msgspec.field(name="io.modelcontextprotocol/clientCapabilities")


class StatelessParams(msgspec.Struct):
    """The params of any request, as far as they are checked here.

    What may be of any type stays as it was sent: to decode a megabyte of numbers can take seconds.
    """

    meta: Meta = msgspec.field(name="_meta")
    name: Raw = Raw(b"null")
    uri: Raw = Raw(b"null")


_params = msgspec.json.Decoder(StatelessParams)


def check(message: RpcRequest, headers: dict[bytes, bytes]) -> None:
    """Raise RpcError unless the request is complete, agrees with its headers and is of this revision."""
    try:
        params = _params.decode(message.params if isinstance(message.params, Raw) else b"{}")
    except msgspec.ValidationError as error:
        check_revision(headers)  # a client of an unknown revision lacks members; what it must know is the revision
        raise RpcError(INVALID_PARAMS, f"Invalid params: {error}") from None
    _agree(headers, b"mcp-protocol-version", params.meta.version)
    _agree(headers, b"mcp-method", message.method)
    if (parameter := _NAME_PARAMETERS.get(str(message.method))) is not None:
        named = bytes(getattr(params, parameter))
        _agree(headers, b"mcp-name", msgspec.json.decode(named) if named.startswith(b'"') else None)
    if params.meta.version != STATELESS:
        raise _not_served(params.meta.version)


def check_revision(headers: dict[bytes, bytes]) -> None:
    """Raise RpcError unless the header names this revision, which is all that is checked of what gets no answer."""
    named = headers.get(b"mcp-protocol-version", b"").decode("latin-1")
    if named != STATELESS:
        raise _not_served(named)


_META = msgspec.json.encode({"io.modelcontextprotocol/serverInfo": SERVER_INFO})


def framed(members: bytes, ttl_ms: int | None) -> bytes:
    """A result object of this revision; with `ttl_ms`, clients and caches between may keep it that long."""
    caching = b"" if ttl_ms is None else b',"ttlMs":%d,"cacheScope":"public"' % ttl_ms
    return b'{"resultType":"complete",%b%b,"_meta":%b}' % (members, caching, _META)


def _not_served(version: str) -> RpcError:
    return RpcError(
        VERSION_NOT_SERVED, "Unsupported protocol version", {"supported": [STATELESS], "requested": version}
    )


def _agree(headers: dict[bytes, bytes], name: bytes, value: object) -> None:
    if _decoded(headers.get(name, b"").decode("latin-1")) != value:
        raise RpcError(HEADER_MISMATCH, f"Header mismatch: {name.decode()} does not match the body")


def _decoded(text: str) -> str:
    if not (text.startswith(_BASE64_START) and text.endswith(_BASE64_END)):
        return text
    try:
        return base64.b64decode(text[len(_BASE64_START) : -len(_BASE64_END)], validate=True).decode("utf-8")
    except ValueError:  # neither base64 nor UTF-8
        return text
