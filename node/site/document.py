"""A document that stays the same while the process lives: sent with an ETag, and not sent twice."""

import hashlib

from node.web.http import Header, Request, Response

HOUR = b"public, max-age=3600"


class Document:
    """Bytes with a media type, and how long others may keep them."""

    def __init__(self, body: bytes, media_type: str, caching: bytes = HOUR, headers: tuple[Header, ...] = ()) -> None:
        self.body = body
        self.tag = etag_of(body)
        self.headers: tuple[Header, ...] = (
            (b"content-type", media_type.encode()),
            (b"cache-control", caching),
            (b"etag", self.tag.encode()),
            *headers,
        )

    def answer(self, request: Request) -> Response:
        """200 with the document, or 304 if the client has it."""
        return conditional(request, self.body, self.headers, self.tag)


def etag_of(body: bytes) -> str:
    """A strong validator."""
    return f'"{hashlib.sha256(body).hexdigest()[:20]}"'


def conditional(request: Request, body: bytes, headers: tuple[Header, ...], tag: str) -> Response:
    """200, or 304 when If-None-Match names the tag (RFC 9110 §13.1.2, weak comparison)."""
    known = request.header(b"if-none-match")
    if known is not None and (known.strip() == "*" or tag in _tags(known)):
        return Response(304, b"", headers)
    return Response(200, body, headers)


def _tags(header: str) -> set[str]:
    return {tag.strip().removeprefix("W/") for tag in header.split(",")}
