"""The embedded blob store over HTTP: its own small ASGI app, so that bytes never pass the relay.

`PUT /blobs/<capability>` takes an upload, `GET` and `HEAD` serve it; the capability says which. Files
are `disk`'s business. No body is ever held in memory, and every file operation runs in a thread.
"""

import asyncio
import os
import re
from collections.abc import Sequence
from time import monotonic
from typing import BinaryIO

import msgspec
import structlog

from node.artifacts.blobs.capability import Capability, DownloadGrant, Expired, Forged, Upload
from node.artifacts.blobs.disk import PREFIX, DiskStore
from node.artifacts.blobs.interface import CHUNK, Grant, attachment, digest_base64
from node.artifacts.blobs.upload import PartialUpload, UploadError
from node.web.errors import ACCEPT_PLAIN, CATALOGUE, HELP
from node.web.http import PLAIN, Header, Receive, Scope, Send

STALL = 5.0
"""Seconds without a byte of an upload before it ends with 408; Granian has no such deadline."""

UPLOAD_SECONDS = 900.0
"""Seconds the longest upload may take, however steadily it drips."""

SEND_STALL = 30.0
"""Seconds a reader may take none of a download before it is given up."""

_METHODS = {Upload: b"PUT, OPTIONS", DownloadGrant: b"GET, HEAD, OPTIONS"}
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")

# Anything may fetch or fill a capability URL: who holds it may use it, and no cookie goes along.
_ALWAYS: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"cross-origin"),
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"ETag, Content-Range, Content-Disposition, Repr-Digest, X-Error-Code"),
)
_PREFLIGHT: tuple[Header, ...] = (
    (b"access-control-allow-methods", b"GET, HEAD, PUT"),
    (b"access-control-allow-headers", b"Content-Type, Range, If-Range, If-None-Match"),
    (b"access-control-max-age", b"7200"),
)

log = structlog.get_logger()


class ClientGone(Exception):
    """The client went away; nobody is left to answer."""


class DiskApp:
    """ASGI app for everything under PREFIX. `stall` and `send_stall` are in seconds."""

    def __init__(self, store: DiskStore, stall: float = STALL, send_stall: float = SEND_STALL) -> None:
        self._store = store
        self._stall = stall
        self._send_stall = send_stall

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] == "OPTIONS":
                return await _answer(send, 204, b"", _PREFLIGHT)
            capability = self._capability(scope["path"])
            match scope["method"], capability:
                case "PUT", Upload():
                    await self._put(scope, receive, send, capability.grant)
                case "GET" | "HEAD", DownloadGrant():
                    await self._get(scope, receive, send, capability)
                case _:
                    await _refuse(send, "blob.method", [(b"allow", _METHODS[type(capability)])])
        except UploadError as refusal:
            await _refuse(send, refusal.code, [ACCEPT_PLAIN] if refusal.code == "body.encoded" else ())
        except ClientGone:
            return None
        except OSError:
            log.exception("blob store cannot use its disk")
            await _refuse(send, "blob.unavailable", [(b"retry-after", b"5")])

    def _capability(self, path: str) -> Capability:
        try:
            return self._store.signer.read(path.removeprefix(PREFIX))
        except Forged:
            raise UploadError("blob.forged") from None
        except Expired:
            raise UploadError("blob.expired") from None

    async def _put(self, scope: Scope, receive: Receive, send: Send, grant: Grant) -> None:
        _check_headers(scope["headers"], grant)
        part = self._store.part(grant)
        try:
            await asyncio.to_thread(part.start)
            await self._fill(part, receive)
            await asyncio.to_thread(part.finish)
        finally:
            await asyncio.shield(asyncio.to_thread(part.abort))
        body = msgspec.json.encode({"id": grant.id, "byte_size": grant.byte_size, "digest_sha256": grant.digest_sha256})
        await _answer(send, 200, body, [(b"content-type", b"application/json"), (b"etag", _etag(grant))])

    async def _fill(self, part: PartialUpload, receive: Receive) -> None:
        ends = monotonic() + UPLOAD_SECONDS
        waiting = bytearray()
        more = True
        while more:
            try:
                async with asyncio.timeout(min(self._stall, ends - monotonic())):
                    message = await receive()
            except TimeoutError:
                raise UploadError("blob.stalled") from None
            if message["type"] == "http.disconnect":
                raise ClientGone
            waiting += message.get("body", b"")
            more = message.get("more_body", False)
            if len(waiting) >= CHUNK or (waiting and not more):
                await asyncio.to_thread(part.write, bytes(waiting))
                waiting.clear()

    async def _get(self, scope: Scope, receive: Receive, send: Send, capability: DownloadGrant) -> None:
        grant = capability.grant
        asked = {name: value.decode("latin-1") for name, value in scope["headers"]}
        headers: list[Header] = [
            *_ALWAYS,
            (b"etag", _etag(grant)),
            (b"accept-ranges", b"bytes"),
            (b"cache-control", b"private, max-age=%d" % self._store.signer.seconds_left(capability)),
        ]
        if _matches(asked.get(b"if-none-match"), _etag(grant)):
            return await _start(send, 304, headers, last=True)
        try:
            file = await asyncio.to_thread(self._store.open, grant.id)
        except FileNotFoundError:
            raise UploadError("blob.missing") from None
        with file:
            size = os.fstat(file.fileno()).st_size
            headers += [
                (b"content-type", grant.media_type.encode("ascii")),
                (b"content-disposition", attachment(capability.filename or grant.id).encode("ascii")),
                (b"repr-digest", f"sha-256=:{digest_base64(grant.digest_sha256)}:".encode("ascii")),
            ]
            resumed = asked.get(b"if-range", _etag(grant).decode()) == _etag(grant).decode()
            span = _span(asked.get(b"range"), size) if resumed else None
            start, end = span or (0, size)
            if start >= size:
                return await _refuse(send, "blob.range", [(b"content-range", b"bytes */%d" % size)])
            headers.append((b"content-length", b"%d" % (end - start)))
            if span:
                headers.append((b"content-range", b"bytes %d-%d/%d" % (start, end - 1, size)))
            head = scope["method"] == "HEAD"
            await _start(send, 206 if span else 200, headers, last=head)
            if not head:
                await self._stream(file, start, end, receive, send)
        return None

    async def _stream(self, file: BinaryIO, start: int, end: int, receive: Receive, send: Send) -> None:
        # Granian answers a send to a closed connection with a log line, not an error: watch for the end.
        left = asyncio.ensure_future(_disconnected(receive))
        try:
            while start < end and not left.done():
                chunk = await asyncio.to_thread(os.pread, file.fileno(), min(CHUNK, end - start), start)
                if not chunk:
                    raise ClientGone
                start += len(chunk)
                message = {"type": "http.response.body", "body": chunk, "more_body": start < end}
                async with asyncio.timeout(self._send_stall):
                    await send(message)
        except OSError as error:  # a reader that takes nothing, or a disk that gives nothing: the length shows it
            raise ClientGone from error
        finally:
            left.cancel()


def _check_headers(headers: Sequence[Header], grant: Grant) -> None:
    """Refuse before a byte is read: the URL is bound to size and type, and both are told (DESIGN 8)."""
    sent = dict(headers)
    if sent.get(b"content-encoding", b"").lower() not in PLAIN:
        raise UploadError("body.encoded")
    length = sent.get(b"content-length")
    if length is None or b"transfer-encoding" in sent:
        raise UploadError("blob.length_required")
    if length != b"%d" % grant.byte_size:
        raise UploadError("blob.size")
    if _normal(sent.get(b"content-type", b"").decode("latin-1")) != _normal(grant.media_type):
        raise UploadError("blob.type")


def _normal(media_type: str) -> list[str]:
    """A media type without the differences that mean nothing: case and the spaces around parameters."""
    return [piece.strip().lower() for piece in media_type.split(";")]


def _etag(grant: Grant) -> bytes:
    return f'"{grant.digest_sha256}"'.encode("ascii")


def _matches(if_none_match: str | None, etag: bytes) -> bool:
    if if_none_match is None:
        return False
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in tags or etag.decode() in tags


def _span(asked: str | None, size: int) -> tuple[int, int] | None:
    """First byte and the one after the last of a single range; None for the whole (RFC 9110 §14.2).

    Several ranges, or what is no byte range, are answered with the whole, as the RFC allows. A range
    that starts beyond the content is returned as it is, for the caller to refuse.
    """
    found = _RANGE.fullmatch(asked.replace(" ", "")) if asked else None
    if found is None or found[0] == "bytes=-":
        return None
    first, last = found[1], found[2]
    if not first:
        return (max(0, size - int(last)), size) if int(last) else (size, size)
    if last and int(last) < int(first):
        return None
    return int(first), min(size, int(last) + 1) if last else size


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _refuse(send: Send, code: str, headers: Sequence[Header] = ()) -> None:
    """The refusal in the shape of every error of the node; the rest of a body is not waited for."""
    entry = CATALOGUE[code]
    await _answer(
        send,
        entry.status,
        msgspec.json.encode({"error": entry.sentence}),
        [
            (b"content-type", b"application/json"),
            (b"x-error-code", code.encode("ascii")),
            HELP,
            (b"cache-control", b"no-store"),
            (b"connection", b"close"),
            *headers,
        ],
    )


async def _answer(send: Send, status: int, body: bytes, headers: Sequence[Header]) -> None:
    length = [] if status == 204 else [(b"content-length", b"%d" % len(body))]
    await _start(send, status, [*_ALWAYS, *headers, *length])
    await send({"type": "http.response.body", "body": body})


async def _start(send: Send, status: int, headers: Sequence[Header], *, last: bool = False) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if last:
        await send({"type": "http.response.body", "body": b""})
