"""Revision 2026-07-28: no handshake, so each request says its revision, in `_meta` and in headers that agree.

What is particular to it is here; its methods are those of `node.mcp.server`.
"""

import base64
import binascii
from typing import Any

import msgspec

from node.mcp.json_rpc import HEADER_MISMATCH, INVALID_PARAMS, VERSION_NOT_SERVED, Raw, RpcError, RpcRequest
from node.mcp.versions import SERVER_INFO, STATELESS

_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods whose Mcp-Name header repeats a parameter, and which."""

_ENCODED_START, _ENCODED_END = "=?base64?", "?="


class Meta(msgspec.Struct):
    """What `_meta` of a request must say."""

    version: str = msgspec.field(name="io.modelcontextprotocol/protocolVersion")
    capabilities: dict[str, Any] = msgspec.field(name="io.modelcontextprotocol/clientCapabilities")


class StatelessParams(msgspec.Struct):
    """The params of any request, as far as headers repeat them."""

    meta: Meta = msgspec.field(name="_meta")
    name: Any = None
    uri: Any = None


_params = msgspec.json.Decoder(StatelessParams)


def check(message: RpcRequest, headers: dict[bytes, bytes]) -> None:
    """Raise RpcError unless the request is complete, agrees with its headers and is of a revision we speak."""
    try:
        params = _params.decode(message.params if isinstance(message.params, Raw) else b"{}")
    except msgspec.ValidationError as error:
        named = headers.get(b"mcp-protocol-version", b"").decode("latin-1")
        if named != STATELESS:  # a revision that is not served here explains what is missing
            raise _not_served(named) from None
        raise RpcError(INVALID_PARAMS, f"Invalid params: {error}") from None
    _agree(headers, b"mcp-protocol-version", params.meta.version)
    _agree(headers, b"mcp-method", message.method)
    if (named := _NAMED.get(str(message.method))) is not None:
        _agree(headers, b"mcp-name", getattr(params, named))
    if params.meta.version != STATELESS:
        raise _not_served(params.meta.version)


class ResultFrame:
    """What every result of this revision has besides its own members."""

    def __init__(self) -> None:
        meta = msgspec.json.encode({"io.modelcontextprotocol/serverInfo": SERVER_INFO})
        self._end = b',"_meta":%b}' % meta

    def of(self, members: bytes, ttl_ms: int | None) -> bytes:
        """The whole result object; `ttl_ms` for those that clients may keep, which anyone may share."""
        caching = b"" if ttl_ms is None else b',"ttlMs":%d,"cacheScope":"public"' % ttl_ms
        return b'{"resultType":"complete",%b%b%b' % (members, caching, self._end)


def _not_served(version: str) -> RpcError:
    return RpcError(
        VERSION_NOT_SERVED, "Unsupported protocol version", {"supported": [STATELESS], "requested": version}
    )


def _agree(headers: dict[bytes, bytes], name: bytes, value: object) -> None:
    if _decoded(headers.get(name, b"").decode("latin-1")) != value:
        raise RpcError(HEADER_MISMATCH, f"Header mismatch: {name.decode()} does not match the body")


def _decoded(text: str) -> str:
    """A header value that is not plain ASCII comes as `=?base64?…?=`."""
    if not (text.startswith(_ENCODED_START) and text.endswith(_ENCODED_END)):
        return text
    try:
        return base64.b64decode(text[len(_ENCODED_START) : -len(_ENCODED_END)], validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return text
