"""The embedded blob store over HTTP, in a small ASGI app of its own, so that bytes never pass through the relay.

`PUT /blobs/<capability>` takes an upload, `GET` and `HEAD` serve it; the capability says which of them is allowed.
`disk` and `upload` handle the files. No body is ever in memory as a whole, and every file operation runs in a thread.
"""

import asyncio
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import BinaryIO, ParamSpec, TypeVar

import msgspec
import structlog

from node.artifacts.blobs.capability import DownloadGrant, UploadGrant
from node.artifacts.blobs.disk import PREFIX, DiskStore
from node.artifacts.blobs.headers import content_headers, etag
from node.artifacts.blobs.interface import CHUNK_BYTES, RETRY_AFTER_SECONDS, Grant
from node.artifacts.blobs.upload import PartialUpload
from node.common.refusal import Refused
from node.share.fair_semaphore import FairSemaphore
from node.share.site import site_of
from node.web.deadline import Deadlines
from node.web.document import client_has
from node.web.errors import CLOSE, refusal
from node.web.http import PLAIN, Disconnected, Header, Receive, Scope, Send, until_disconnected
from node.web.waiting_places import WaitingPlaces

STALL_SECONDS = 5.0
"""Seconds without a byte of an upload after which it ends with 408. Granian has no such deadline."""

UPLOAD_SECONDS = 900.0
"""Maximum duration of an upload, in seconds, however steadily its bytes come."""

DROP_SECONDS = 60.0
"""Seconds for which the body of a refused upload is still read: enough for 100 MiB at 14 Mbit/s."""

SEND_STALL_SECONDS = 30.0
"""Seconds for which a reader may take no byte of a download before the connection is given up."""

PIECE_BYTES = 64 * 1024
"""Bytes of a download that are read and sent at a time. Granian keeps eight pieces that the reader has not taken."""

FILES_AT_ONCE = 4
FILES_OF_A_SITE = 2
"""Simultaneous file operations of a process, and of one site in it. Each takes a thread, of which asyncio has five or
more. Each piece of a download also takes a moment of the event loop: 64 downloads at full speed made everything else
wait for 30 ms."""

_METHODS = {UploadGrant: "PUT, OPTIONS", DownloadGrant: "GET, HEAD, OPTIONS"}
_UNTYPED = ([""], ["application/octet-stream"])
"""Content types that mean no more than "bytes" (RFC 9110 §8.3). Many clients send them when they are given no type."""

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.IGNORECASE | re.ASCII)

# A page of any origin may use a capability URL: whoever has the URL may use it, and no cookies are sent with it.
_ALWAYS: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"cross-origin"),
    (b"access-control-allow-origin", b"*"),
    (
        b"access-control-expose-headers",
        b"ETag, Content-Range, Content-Disposition, Repr-Digest, Retry-After, X-Error-Code, X-Request-Id",
    ),
)
_PREFLIGHT: tuple[Header, ...] = (
    (b"access-control-allow-methods", b"GET, HEAD, PUT"),
    (b"access-control-allow-headers", b"Content-Type, Range, If-Range, If-Match, If-None-Match"),
    (b"access-control-max-age", b"7200"),
)

P = ParamSpec("P")
T = TypeVar("T")

log = structlog.get_logger()


class DiskApp:
    """The ASGI app for everything under PREFIX.

    `client_of` returns the client of a request. `stall` and `send_stall` are in seconds.
    """

    def __init__(
        self,
        store: DiskStore,
        client_of: Callable[[Scope], str],
        stall: float = STALL_SECONDS,
        send_stall: float = SEND_STALL_SECONDS,
    ) -> None:
        self._store = store
        self._client_of = client_of
        self._files = FairSemaphore(FILES_AT_ONCE, each=FILES_OF_A_SITE, waiting=sys.maxsize)  # connections limit them
        self._deadlines = Deadlines()
        self._stall = stall
        self._send_stall = send_stall

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] == "OPTIONS":
                return await _answer(send, 204, b"", _PREFLIGHT)
            capability = self._store.signer.read(scope["path"].removeprefix(PREFIX))
            match scope["method"], capability:
                case "PUT", UploadGrant():
                    await self._put(scope, receive, send, capability.grant)
                case "GET" | "HEAD", DownloadGrant():
                    await self._get(scope, receive, send, capability)
                case _:
                    allowed = _METHODS[type(capability)]
                    await _refuse(send, Refused("blob.method", allowed=allowed), [(b"allow", allowed.encode())])
        except Refused as refused:
            await _refuse(send, refused)
        except Disconnected:
            return None
        except OSError:
            log.exception("blob store cannot use its disk")
            await _refuse(send, Refused("blob.unavailable", retry_after=RETRY_AFTER_SECONDS))

    async def _put(self, scope: Scope, receive: Receive, send: Send, grant: Grant) -> None:
        try:
            upload = await self._begun(scope, grant)
        except Refused:
            await self._drop_body(scope, receive, grant.byte_size)
            raise
        try:
            await self._fill(upload, scope, receive)
            await self._in_turn(scope, upload.finish)
        finally:
            await _abort(upload)
        body = msgspec.json.encode({"id": grant.id, "byte_size": grant.byte_size, "digest_sha256": grant.digest_sha256})
        await _answer(send, 200, body, [(b"content-type", b"application/json"), (b"etag", etag(grant).encode())])

    async def _begun(self, scope: Scope, grant: Grant) -> PartialUpload:
        """Return an upload that has begun. Raises Refused before any byte of the body is read."""
        _check_headers(scope["headers"], grant)
        upload = self._store.new_upload(grant)
        try:
            await self._in_turn(scope, upload.start)
        except BaseException:
            await _abort(upload)
            raise
        return upload

    async def _fill(self, upload: PartialUpload, scope: Scope, receive: Receive) -> None:
        ends = monotonic() + UPLOAD_SECONDS
        waiting = bytearray()
        more = True
        with WaitingPlaces(self._client_of(scope)) as places:
            while more:
                places.take(len(waiting))
                piece, more = await self._next(receive, ends)
                waiting += piece
                if len(waiting) >= CHUNK_BYTES or (waiting and not more):
                    await self._in_turn(scope, upload.write, bytes(waiting))
                    waiting.clear()

    async def _drop_body(self, scope: Scope, receive: Receive, most: int) -> None:
        """Before an upload is refused, read what its client sends regardless, but no more than it was to send.

        Most clients read no answer while they send, and lose the answer if the connection is closed meanwhile. Nothing
        is read from a client that sends `Expect`, because it sends nothing before the answer, or from one that
        announces more than it was to send, because some of that would stay unread.
        """
        sent = dict(reversed(scope["headers"]))
        length = sent.get(b"content-length", b"")
        more = b"expect" not in sent and not (length.isdigit() and int(length) > most)
        ends = monotonic() + DROP_SECONDS
        with suppress(Refused):  # too slow
            while more and most > 0:
                piece, more = await self._next(receive, ends)
                most -= len(piece)

    async def _next(self, receive: Receive, ends: float) -> tuple[bytes, bool]:
        """Return the next piece of an upload, and whether more follow. Raises Refused `blob.stalled`, Disconnected."""
        try:
            message = await self._deadlines.by(min(monotonic() + self._stall, ends), receive())
        except TimeoutError:
            raise Refused("blob.stalled") from None
        if message["type"] == "http.disconnect":
            raise Disconnected
        return message.get("body", b""), message.get("more_body", False)

    async def _get(self, scope: Scope, receive: Receive, send: Send, capability: DownloadGrant) -> None:
        grant, tag = capability.grant, etag(capability.grant)
        asked = {name: value.decode("latin-1") for name, value in reversed(scope["headers"])}  # the first of each name
        headers: list[Header] = [
            *_ALWAYS,
            (b"accept-ranges", b"bytes"),
            (b"cache-control", b"private, max-age=%d" % self._store.signer.seconds_left(capability)),
        ]
        try:
            file = await self._in_turn(scope, self._store.open, grant.id)
        except FileNotFoundError:
            raise Refused("blob.missing") from None
        with file:
            if client_has(scope["headers"], tag):
                return await _start(send, 304, [*headers, (b"etag", tag.encode())], last=True)
            size = grant.byte_size
            is_head = scope["method"] == "HEAD"  # ranges are not defined for HEAD (RFC 9110 §14.2)
            span = _span(asked.get(b"range"), size) if not is_head and asked.get(b"if-range", tag) == tag else None
            start, end = span or (0, size)
            if start >= size:
                return await _refuse(send, Refused("blob.range"), [(b"content-range", b"bytes */%d" % size)])
            piece = b"" if is_head else await self._piece(scope, file, start, end)
            if not piece and not is_head:  # deleted since it was opened: the file is empty then
                raise Refused("blob.missing")
            headers += [*content_headers(grant, capability.filename), (b"content-length", b"%d" % (end - start))]
            if span:
                headers.append((b"content-range", b"bytes %d-%d/%d" % (start, end - 1, size)))
            await _start(send, 206 if span else 200, headers, last=is_head)
            if not is_head:
                await self._stream(piece, file, start, end, scope, receive, send)
        return None

    async def _stream(
        self, piece: bytes, file: BinaryIO, start: int, end: int, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Send the bytes from `start` to `end`; `piece` has the first of them. Content-Length shows if they
        end early.
        """
        # Granian raises nothing on a send to a closed connection, so the disconnect is awaited at the same time.
        left = asyncio.ensure_future(until_disconnected(receive))
        try:
            while piece and not left.done():
                start += len(piece)
                message = {"type": "http.response.body", "body": piece, "more_body": start < end}
                async with asyncio.timeout(self._send_stall):
                    await send(message)
                piece = await self._piece(scope, file, start, end) if start < end else b""
        except OSError as error:
            raise Disconnected from error
        finally:
            left.cancel()

    async def _piece(self, scope: Scope, file: BinaryIO, start: int, end: int) -> bytes:
        """Return the next bytes of a download; empty if there are no more. Raises OSError."""
        return await self._in_turn(scope, os.pread, file.fileno(), min(PIECE_BYTES, end - start), start)

    async def _in_turn(self, scope: Scope, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking work in a thread, as soon as the client's site has a free place."""
        async with self._files.of(site_of(self._client_of(scope))):
            return await asyncio.to_thread(work, *args, **kwargs)


async def _abort(upload: PartialUpload) -> None:
    await asyncio.shield(asyncio.to_thread(upload.abort))


def _check_headers(headers: Sequence[Header], grant: Grant) -> None:
    """Raise Refused if headers do not fit the grant, before any byte of the body is read (DESIGN 8)."""
    sent = dict(reversed(headers))  # the first of each name
    if sent.get(b"content-encoding", b"").lower() not in PLAIN:
        raise Refused("body.encoded")
    length = sent.get(b"content-length")
    if length is None or b"transfer-encoding" in sent:
        raise Refused("blob.length_required")
    if length != b"%d" % grant.byte_size:
        raise Refused("blob.size")
    named = _normal(sent.get(b"content-type", b"").decode("latin-1"))
    if named not in _UNTYPED and named != _normal(grant.media_type):
        raise Refused("blob.type")


def _normal(media_type: str) -> list[str]:
    """Return a media type without insignificant differences: case, and spaces around parameters."""
    return [piece.strip().lower() for piece in media_type.split(";")]


def _span(asked: str | None, size: int) -> tuple[int, int] | None:
    """Return the first byte of a single range and the byte after its last; None for the whole content (RFC 9110 §14.2).

    Several ranges, and anything that is not a range of bytes, get the whole content, as the RFC allows. A range that
    starts beyond the content is returned as it is, and the caller refuses it.
    """
    found = _RANGE.fullmatch(asked.replace(" ", "")) if asked else None
    first, last = found.groups() if found else ("", "")
    if not first and not last:
        return None
    if not first:
        return max(0, size - int(last)), size
    if last and int(last) < int(first):
        return None
    return int(first), min(size, int(last) + 1) if last else size


async def _refuse(send: Send, refused: Refused, headers: Sequence[Header] = ()) -> None:
    """Send an error as the rest of the node does, and close the connection, since the rest of the body is not read."""
    answer = refusal(refused)
    own = [header for header in answer.headers if header != CLOSE]
    await _answer(send, answer.status, answer.body, [*own, (b"cache-control", b"no-store"), CLOSE, *headers])


async def _answer(send: Send, status: int, body: bytes, headers: Sequence[Header]) -> None:
    length = [] if status == 204 else [(b"content-length", b"%d" % len(body))]
    await _start(send, status, [*_ALWAYS, *headers, *length])
    await send({"type": "http.response.body", "body": body})


async def _start(send: Send, status: int, headers: Sequence[Header], *, last: bool = False) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if last:
        await send({"type": "http.response.body", "body": b""})
