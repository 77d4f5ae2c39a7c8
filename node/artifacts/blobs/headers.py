"""HTTP headers that describe the bytes of an artifact, wherever the bytes are served or announced."""

import re
from base64 import b64encode
from urllib.parse import quote

from node.artifacts.blobs.interface import Grant
from node.web.http import Header

_UNSAFE_IN_NAME = re.compile(r"[^0-9A-Za-z._ -]")


def content_headers(grant: Grant, filename: str | None) -> tuple[Header, ...]:
    """Return the headers of the whole content, except Content-Length.

    A reader saves the content under `filename`, or else under the artifact's id.
    """
    return (
        (b"content-type", grant.media_type.encode("ascii")),
        (b"content-disposition", attachment(filename or grant.id).encode("ascii")),
        (b"etag", etag(grant).encode("ascii")),
        (b"repr-digest", f"sha-256=:{digest_base64(grant.digest_sha256)}:".encode("ascii")),
    )


def etag(grant: Grant) -> str:
    """Return a strong validator, made of the digest."""
    return f'"{grant.digest_sha256}"'


def digest_base64(digest_sha256: str) -> str:
    """Return a hexadecimal SHA-256 in base64, as in HTTP headers."""
    return b64encode(bytes.fromhex(digest_sha256)).decode("ascii")


def attachment(filename: str) -> str:
    """Return a Content-Disposition that makes a browser save, never show, the content (RFC 6266)."""
    plain = _UNSAFE_IN_NAME.sub("_", filename)
    value = f'attachment; filename="{plain}"'
    return value if plain == filename else f"{value}; filename*=UTF-8''{quote(filename, safe='', errors='replace')}"
