"""Answers with an ETag: 304 for a client that already has the content, 412 for one that requires other content (RFC
9110 §13).

A Document is built and compressed once; `revalidated` is for a body that was made for one request.
"""

import gzip
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC
from email.utils import formatdate, parsedate_to_datetime
from functools import partial

from node.common.refusal import Refused
from node.web.accept import weights
from node.web.http import Handler, Header, Request, Response
from node.web.route import Route

HOUR = b"public, max-age=3600"

MAX_DATE_CHARACTERS = 40
"""Longest date that is parsed, in characters. The longest of HTTP's three formats has 33 (RFC 9110 §5.6.7)."""

MADE_WEIGHT = 2
"""Cost of one byte of a page that is made for one request, in bytes of an answer: a page of 20 kB takes 2.5 ms."""

COMPRESSED_SHARE = 0.9
"""A document is compressed only if that reduces it to at most this share of its size, unlike most images and fonts."""


class Document:
    """Bytes with a media type and a caching policy."""

    def __init__(self, body: bytes, media_type: str, caching: bytes = HOUR, headers: tuple[Header, ...] = ()) -> None:
        self.body = body
        self._tag = etag_of(body)
        self._headers = ((b"content-type", media_type.encode()), (b"cache-control", caching), *headers)
        compressed = gzip.compress(body, mtime=0)
        self._compressed = compressed if len(compressed) <= COMPRESSED_SHARE * len(body) else None
        if self._compressed is not None:
            self._headers = (*self._headers, (b"vary", b"Accept-Encoding"))

    def answer(self, request: Request) -> Response:
        """Return 200 with the document, or 304 if the client has it. Raises as `client_has` does."""
        if self._compressed is not None and takes_gzip(request.header(b"accept-encoding") or ""):
            # A strong validator identifies the exact bytes, so the compressed ones have their own tag (§8.8.3.3).
            headers: tuple[Header, ...] = (*self._headers, (b"content-encoding", b"gzip"))
            return conditional(request, self._compressed, headers, f'{self._tag[:-1]}-gzip"')
        return conditional(request, self.body, self._headers, self._tag)


def document_at(made: Callable[[], Mapping[str, Document]], path: str) -> Handler:
    """Return the handler that answers with the document of a path.

    Most processes never need the documents, so `made` should build them only when it is first called.
    """
    return partial(_send, made, path)


def document_routes(
    tag: str, listed: Iterable[tuple[str, str, str]], made: Callable[[], Mapping[str, Document]]
) -> tuple[Route, ...]:
    """Return the routes of documents, from the path, media type and summary of each. `made`: as in `document_at`."""
    return tuple(
        Route(
            method="GET",
            path=path,
            handler=document_at(made, path),
            summary=summary,
            tag=tag,
            media_type=media_type.partition(";")[0],
            has_etag=True,
        )
        for path, media_type, summary in listed
    )


async def _send(made: Callable[[], Mapping[str, Document]], path: str, request: Request) -> Response:
    return made()[path].answer(request)


def revalidated(
    request: Request, body: bytes, media_type: str, caching: bytes, headers: tuple[Header, ...]
) -> Response:
    """Return 200 with the body, or 304 if the client has it. Raises as `client_has` does."""
    headers = ((b"content-type", media_type.encode()), (b"cache-control", caching), *headers)
    request.cost += MADE_WEIGHT * len(body)  # the body was made even if a 304 or 412 omits it
    response = conditional(request, body, headers, etag_of(body))
    request.cost -= len(response.body)
    return response


def etag_of(body: bytes) -> str:
    """Return a strong validator."""
    return f'"{hashlib.sha256(body).hexdigest()[:20]}"'


def conditional(
    request: Request, body: bytes, headers: tuple[Header, ...], tag: str, modified: int | None = None
) -> Response:
    """Return 200 with the body, or 304 if the client has it. `modified` and exceptions: as in `client_has`."""
    headers = (*headers, (b"etag", tag.encode()))
    if modified is not None:
        headers = (*headers, (b"last-modified", formatdate(modified, usegmt=True).encode()))
    if client_has(request.scope["headers"], tag, modified):
        return Response(304, b"", headers)
    return Response(200, body, headers)


def client_has(headers: Sequence[Header], tag: str, modified: float | None = None) -> bool:
    """Return whether the client has the content that the strong `tag` identifies, so that the answer is 304.

    To be called for a GET whose answer would be 200 without conditions, after all other checks (RFC 9110 §13.2). Date
    conditions count only for content with a time of modification (`modified`, whole seconds since 1970), and only where
    the client names no tags. Raises Refused `content.other` for a client that requires other content, or content from
    before a date.
    """
    if_match, if_none_match = _values(headers, b"if-match"), _values(headers, b"if-none-match")
    named = tag.encode()  # with quotes, so that it cannot match part of another tag
    if if_match:
        # If-Match compares strongly: a weak tag is never the same (§8.8.3.2).
        is_other = if_match != b"*" and named not in if_match.replace(b"W/" + named, b"")
    else:
        is_other = _since(headers, b"if-unmodified-since", modified) is True
    if is_other:
        raise Refused("content.other")
    if if_none_match:
        return if_none_match == b"*" or named in if_none_match
    return _since(headers, b"if-modified-since", modified) is False


def _values(headers: Sequence[Header], wanted: bytes) -> bytes:
    return b", ".join(value for name, value in headers if name == wanted).strip()


def _since(headers: Sequence[Header], name: bytes, modified: float | None) -> bool | None:
    """Return whether the content was modified after the date in a header; None unless there is exactly one date."""
    value = _values(headers, name)
    if modified is None or not value or len(value) > MAX_DATE_CHARACTERS:
        return None
    try:
        date = parsedate_to_datetime(value.decode("latin-1"))
    except (ValueError, OverflowError):
        return None
    # A date without a zone, as C's asctime writes it, is in UTC.
    return modified > (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def takes_gzip(accepted: str) -> bool:
    """Return whether Accept-Encoding allows gzip, by name or by `*` (RFC 9110 §12.5.3)."""
    wanted = weights(accepted)
    return wanted.get("gzip", wanted.get("*", 0.0)) > 0
