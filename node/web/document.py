"""Answers with an ETag, which a client that has them need not get again; and documents that are compressed once."""

import gzip
import hashlib

from node.web.http import Header, Request, Response

HOUR = b"public, max-age=3600"

MAX_COMPRESSED_SHARE = 0.9
"""A document is sent compressed if that leaves at most this share of its size; images and fonts stay above it."""


class Document:
    """A document that stays the same while the process lives."""

    def __init__(self, body: bytes, media_type: str, caching: bytes = HOUR, headers: tuple[Header, ...] = ()) -> None:
        """`caching`: the value of Cache-Control."""
        self.body = body
        self._etag = etag_of(body)
        common = ((b"content-type", media_type.encode()), (b"cache-control", caching), *headers)
        compressed = gzip.compress(body, mtime=0)
        self._compressed = compressed if len(compressed) <= MAX_COMPRESSED_SHARE * len(body) else None
        if self._compressed is not None:
            common = (*common, (b"vary", b"Accept-Encoding"))
        self._headers = (*common, (b"etag", self._etag.encode()))
        # A strong validator names the bytes that are sent, so the compressed form has its own (RFC 9110 §8.8.3.3).
        self._compressed_etag = f'{self._etag[:-1]}-gzip"'
        self._compressed_headers = (
            *common,
            (b"content-encoding", b"gzip"),
            (b"etag", self._compressed_etag.encode()),
        )

    def answer(self, request: Request) -> Response:
        """200 with the document, or 304 if the client has it."""
        if self._compressed is not None and takes_gzip(request.header(b"accept-encoding") or ""):
            return conditional(request, self._compressed, self._compressed_headers, self._compressed_etag)
        return conditional(request, self.body, self._headers, self._etag)


def etag_of(body: bytes) -> str:
    """A strong validator."""
    return f'"{hashlib.sha256(body).hexdigest()[:20]}"'


def conditional(request: Request, body: bytes, headers: tuple[Header, ...], etag: str) -> Response:
    """200 with `body`, or 304 if the client has it. `headers` contain the ETag."""
    if is_known(request.header(b"if-none-match"), etag):
        return Response(304, b"", headers)
    return Response(200, body, headers)


def is_known(if_none_match: str | None, etag: str) -> bool:
    """Whether If-None-Match names the ETag, or any (RFC 9110 §13.1.2, weak comparison)."""
    if if_none_match is None:
        return False
    etags = [each.strip().removeprefix("W/") for each in if_none_match.split(",")]
    return "*" in etags or etag in etags


def takes_gzip(accepted: str) -> bool:
    """Whether Accept-Encoding allows gzip (RFC 9110 §12.5.3)."""
    weights: dict[str, str] = {}
    for part in accepted.lower().split(","):
        name, _, weight = part.partition(";")
        weights[name.strip()] = weight.replace(" ", "").removeprefix("q=")
    weight = weights.get("gzip", weights.get("*", "0"))
    return not weight or weight.strip("0.") != ""
