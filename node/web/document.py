"""Answers with an ETag, and 304 for a client that already has them (If-None-Match, RFC 9110 §13.1.2).

A Document is made and compressed once; `revalidated` is for a body that was made for one request.
"""

import gzip
import hashlib
from collections.abc import Callable, Mapping
from functools import partial

from node.web.http import LONGEST_ACCEPT, Handler, Header, Request, Response

HOUR = b"public, max-age=3600"

COMPRESSED_SHARE = 0.9
"""A document is compressed only if that makes it at most this share of its size; images and fonts stay as they are."""


class Document:
    """Bytes with a media type, and how long caches may keep them."""

    def __init__(self, body: bytes, media_type: str, caching: bytes = HOUR, headers: tuple[Header, ...] = ()) -> None:
        self.body = body
        self._tag = _etag_of(body)
        self._headers = ((b"content-type", media_type.encode()), (b"cache-control", caching), *headers)
        compressed = gzip.compress(body, mtime=0)
        self._compressed = compressed if len(compressed) <= COMPRESSED_SHARE * len(body) else None
        if self._compressed is not None:
            self._headers = (*self._headers, (b"vary", b"Accept-Encoding"))

    def answer(self, request: Request) -> Response:
        """200 with the document, or 304 if the client has it."""
        if self._compressed is not None and takes_gzip(request.header(b"accept-encoding") or ""):
            # A strong validator names the bytes that are sent, so the compressed ones have their own (§8.8.3.3).
            headers: tuple[Header, ...] = (*self._headers, (b"content-encoding", b"gzip"))
            return _conditional(request, self._compressed, headers, f'{self._tag[:-1]}-gzip"')
        return _conditional(request, self.body, self._headers, self._tag)


class DocumentSet:
    """Documents by path. Most processes never need them, so `made` should make them only when it is first called."""

    def __init__(self, made: Callable[[], Mapping[str, Document]]) -> None:
        self._made = made

    def at(self, path: str) -> Handler:
        """The handler that answers with the document of that path."""
        return partial(self._send, path)

    async def _send(self, path: str, request: Request) -> Response:
        return self._made()[path].answer(request)


def revalidated(
    request: Request, body: bytes, media_type: str, caching: bytes, headers: tuple[Header, ...]
) -> Response:
    """200 with the body, or 304 if the client has it."""
    headers = ((b"content-type", media_type.encode()), (b"cache-control", caching), *headers)
    response = _conditional(request, body, headers, _etag_of(body))
    request.cost += len(body) - len(response.body)  # a body that a 304 leaves out was made all the same
    return response


def _etag_of(body: bytes) -> str:
    """A strong validator."""
    return f'"{hashlib.sha256(body).hexdigest()[:20]}"'


def _conditional(request: Request, body: bytes, headers: tuple[Header, ...], tag: str) -> Response:
    """200, or 304 when If-None-Match names the tag."""
    headers = (*headers, (b"etag", tag.encode()))
    if names_tag(request.header(b"if-none-match"), tag):
        return Response(304, b"", headers)
    return Response(200, body, headers)


def names_tag(if_none_match: str | None, tag: str) -> bool:
    """Whether an If-None-Match header, if there is one, names the tag (RFC 9110 §13.1.2, weak comparison)."""
    named = (if_none_match or "").strip()
    return named == "*" or tag in named  # with its quotes, so that it is no part of another


def takes_gzip(accepted: str) -> bool:
    """Whether Accept-Encoding names gzip, or everything, and does not rule it out (RFC 9110 §12.5.3)."""
    weights: dict[str, str] = {}
    for part in accepted[:LONGEST_ACCEPT].lower().split(","):
        name, _, weight = part.partition(";")
        weights[name.strip()] = weight.replace(" ", "").removeprefix("q=")
    weight = weights.get("gzip", weights.get("*", "0"))
    return not weight or weight.strip("0.") != ""
