"""A document that stays the same while the process lives: packed once, sent with an ETag, and not sent twice."""

import gzip
import hashlib

from node.web.http import Header, Request, Response

HOUR = b"public, max-age=3600"

WORTH_PACKING = 0.9
"""Share of its size that a packed document may still have; pictures and fonts stay above it."""


class Document:
    """Bytes with a media type, and how long others may keep them."""

    def __init__(self, body: bytes, media_type: str, caching: bytes = HOUR, headers: tuple[Header, ...] = ()) -> None:
        self.body = body
        self._tag = etag_of(body)
        common = ((b"content-type", media_type.encode()), (b"cache-control", caching), *headers)
        packed = gzip.compress(body, mtime=0)
        if len(packed) > WORTH_PACKING * len(body):
            self._plain = (*common, (b"etag", self._tag.encode()))
            self._packed = None
            return
        common = (*common, (b"vary", b"Accept-Encoding"))
        self._plain = (*common, (b"etag", self._tag.encode()))
        # A strong validator names the bytes that are sent, so the packed ones have their own (RFC 9110 §8.8.3.3).
        self._packed_tag = f'{self._tag[:-1]}-gzip"'
        self._packed_headers = (*common, (b"content-encoding", b"gzip"), (b"etag", self._packed_tag.encode()))
        self._packed = packed

    def answer(self, request: Request) -> Response:
        """200 with the document, or 304 if the client has it."""
        if self._packed is not None and takes_gzip(request.header(b"accept-encoding") or ""):
            return conditional(request, self._packed, self._packed_headers, self._packed_tag)
        return conditional(request, self.body, self._plain, self._tag)


def etag_of(body: bytes) -> str:
    """A strong validator."""
    return f'"{hashlib.sha256(body).hexdigest()[:20]}"'


def conditional(request: Request, body: bytes, headers: tuple[Header, ...], tag: str) -> Response:
    """200, or 304 when If-None-Match names the tag."""
    if names_tag(request.header(b"if-none-match"), tag):
        return Response(304, b"", headers)
    return Response(200, body, headers)


def names_tag(if_none_match: str | None, tag: str) -> bool:
    """Whether an If-None-Match header, if there is one, names the tag (RFC 9110 §13.1.2, weak comparison)."""
    tags = [each.strip().removeprefix("W/") for each in (if_none_match or "").split(",")]
    return tag in tags or tags == ["*"]


def takes_gzip(accepted: str) -> bool:
    """Whether Accept-Encoding names gzip, or everything, and does not rule it out (RFC 9110 §12.5.3)."""
    weights: dict[str, str] = {}
    for part in accepted.lower().split(","):
        name, _, weight = part.partition(";")
        weights[name.strip()] = weight.replace(" ", "").removeprefix("q=")
    weight = weights.get("gzip", weights.get("*", "0"))
    return not weight or weight.strip("0.") != ""
