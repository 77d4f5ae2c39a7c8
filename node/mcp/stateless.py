"""The specifics of revision 2026-07-28: how requests are checked, and which members results have in addition.

This revision has no handshake. Each request names the revision in `_meta`, and headers repeat parts of the body. The
methods are in `node.mcp.server`.
"""

import base64

import msgspec
from msgspec import UNSET, Raw, UnsetType

from node.mcp.json_rpc import HEADER_MISMATCH, INVALID_PARAMS, VERSION_NOT_SERVED, RpcError, RpcRequest
from node.mcp.versions import SERVED, SERVER_INFO, STATELESS

_NAME_PARAMETERS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter that the Mcp-Name header repeats, by method."""

_BASE64_START, _BASE64_END = "=?base64?", "?="
"""Delimiters of a base64-encoded header value, which clients use for text that is not plain ASCII."""


class AnyObject(msgspec.Struct):
    """An object whose members are skipped undecoded: decoding 90,000 members takes 30 ms."""


class Meta(msgspec.Struct):
    """The required members of a request's `_meta`."""

    version: str = msgspec.field(name="io.modelcontextprotocol/protocolVersion")
    capabilities: AnyObject = msgspec.field(name="io.modelcontextprotocol/clientCapabilities")


class StatelessParams(msgspec.Struct):
    """The params of any request that are checked here.

    `name` and `uri` may have any type, so they stay undecoded: decoding a megabyte of numbers can take seconds.
    """

    meta: Meta = msgspec.field(name="_meta")
    name: Raw = Raw(b"null")
    uri: Raw = Raw(b"null")


class VersionMeta(msgspec.Struct):
    """The `_meta` of a request whose header names an earlier revision."""

    version: Raw | UnsetType = msgspec.field(name="io.modelcontextprotocol/protocolVersion", default=UNSET)


class VersionParams(msgspec.Struct):
    """The params of a request whose header names an earlier revision."""

    meta: VersionMeta | None = msgspec.field(name="_meta", default=None)


NAMES_VERSION = b"protocolVersion"
"""Bytes found in every message whose `_meta` names a revision, even if its JSON escapes the slash before them (`\\/`).
"""

_params = msgspec.json.Decoder(StatelessParams)
_version_params = msgspec.json.Decoder(VersionParams)


def check(message: RpcRequest, headers: dict[bytes, bytes]) -> None:
    """Raise RpcError unless the request is complete, matches its headers and is of this revision."""
    try:
        params = _params.decode(message.params if isinstance(message.params, Raw) else b"{}")
    except msgspec.ValidationError as error:
        check_revision(headers)  # a request of another revision may lack members; then the revision is the error
        raise RpcError(INVALID_PARAMS, f"Invalid params: {error}") from None
    _agree(headers, b"mcp-protocol-version", params.meta.version)
    _agree(headers, b"mcp-method", message.method)
    if (parameter := _NAME_PARAMETERS.get(str(message.method))) is not None:
        named = bytes(getattr(params, parameter))
        _agree(headers, b"mcp-name", msgspec.json.decode(named) if named.startswith(b'"') else None)
    if params.meta.version != STATELESS:
        raise _not_served(params.meta.version)


def check_revision(headers: dict[bytes, bytes]) -> None:
    """Raise RpcError unless the header names this revision. Nothing else is checked of a message without an answer."""
    named = headers.get(b"mcp-protocol-version", b"").decode("latin-1")
    if named != STATELESS:
        raise _not_served(named)


def check_header(message: RpcRequest, header: bytes) -> None:
    """Raise RpcError if the `_meta` of a message names another revision than `header`, that of an earlier revision.

    Otherwise a proxy that reads only the header would misjudge the message. Revisions with a handshake do not define
    this member, so a `_meta` without it is accepted.
    """
    try:
        meta = _version_params.decode(message.params if isinstance(message.params, Raw) else b"{}").meta
    except msgspec.ValidationError:  # params or `_meta` is not an object
        return
    if meta is None or isinstance(meta.version, UnsetType):
        return
    if bytes(meta.version) != b'"%b"' % header:  # names of revisions have no characters that JSON encoders escape
        raise _mismatch(b"mcp-protocol-version")


_META = msgspec.json.encode({"io.modelcontextprotocol/serverInfo": SERVER_INFO})


def framed(members: bytes, ttl_ms: int | None) -> bytes:
    """Add to a result the members that this revision requires. `ttl_ms`: how long it may be cached; None: not stated.

    A result with a TTL of 0 is marked private, so that caches shared by clients do not store it either.
    """
    scope = b"public" if ttl_ms else b"private"
    caching = b"" if ttl_ms is None else b',"ttlMs":%d,"cacheScope":"%b"' % (ttl_ms, scope)
    return b'"resultType":"complete",%b%b,"_meta":%b' % (members, caching, _META)


def _not_served(version: str) -> RpcError:
    return RpcError(VERSION_NOT_SERVED, "Unsupported protocol version", {"supported": SERVED, "requested": version})


def _agree(headers: dict[bytes, bytes], name: bytes, value: object) -> None:
    if _decoded(headers.get(name, b"").decode("latin-1")) != value:
        raise _mismatch(name)


def _mismatch(name: bytes) -> RpcError:
    return RpcError(HEADER_MISMATCH, f"Header mismatch: {name.decode()} does not match the body")


def _decoded(text: str) -> str:
    if not (text.startswith(_BASE64_START) and text.endswith(_BASE64_END)):
        return text
    try:
        return base64.b64decode(text[len(_BASE64_START) : -len(_BASE64_END)], validate=True).decode("utf-8")
    except ValueError:  # neither base64 nor UTF-8
        return text
