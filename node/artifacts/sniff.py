"""Tells whether the first bytes of an artifact are plainly of another type than its manifest says.

Plain cases are: a type whose content must begin with a signature, and does not; a text type with binary content; an
image type with a program as content. A type that has no signature, or that the node does not know, is believed. This
finds mistakes and simple disguises; it does not prove what the content is. Common types are judged by the tables here,
all others by the signatures of `puremagic`.
"""

import re
from functools import cache
from typing import cast

import puremagic

HEAD_BYTES = 64 * 1024
"""Bytes from the start that are examined. All signatures lie within the first 512."""

_CONTROL = bytes({*range(32), 127} - set(b"\b\t\n\f\r\x1b\x1c\x1d\x1e\x1f"))
"""Control characters that a text should not have. Separators of records and fields are not among them, because RFC 7464
puts one before each JSON text."""
_CONTROL_SHARE = 0.02
"""Maximum share of such characters in a text. In random bytes, one in ten is such a character."""

_SIGNATURES: tuple[tuple[str, re.Pattern[bytes]], ...] = tuple(
    (name, re.compile(pattern, re.DOTALL))
    for name, pattern in {
        "image/png": rb"\x89PNG\r\n\x1a\n",
        "image/jpeg": rb"\xff\xd8\xff",
        "image/gif": rb"GIF8[79]a",
        "image/webp": rb"RIFF....WEBP",
        "image/bmp": rb"BM....\x00\x00\x00\x00",
        "image/tiff": rb"II[*+]\x00|MM\x00[*+]",
        "image/x-icon": rb"\x00\x00[\x01\x02]\x00[^\x00]\x00",
        "audio/wav": rb"(RIF[FX]|RF64)....WAVE",
        "audio/flac": rb"fLaC",
        "audio/mpeg": rb"ID3[\x02-\x04]|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]",
        "audio/midi": rb"MThd\x00\x00\x00\x06",
        "audio/aiff": rb"FORM....AIF[FC]",
        "video/x-msvideo": rb"RIFF....AVI ",
        "application/mp4": rb"....(ftyp|styp|moov|moof|mdat|sidx|emsg|prft|free|wide|skip)",
        "application/ogg": rb"OggS\x00",
        "application/x-matroska": rb"\x1a\x45\xdf\xa3",
        "application/pdf": rb"%PDF-\d",
        "application/zip": rb"PK(\x03\x04|\x05\x06|\x07\x08)",
        "application/gzip": rb"\x1f\x8b\x08",
        "application/x-bzip2": rb"BZh[1-9](1AY&SY|\x17\x72\x45\x38\x50\x90)",
        "application/x-xz": rb"\xfd7zXZ\x00",
        "application/zstd": rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18",
        "application/x-7z-compressed": rb"7z\xbc\xaf\x27\x1c",
        "application/vnd.rar": rb"Rar!\x1a\x07",
        "application/x-tar": rb".{257}ustar[\x00 ]",
        "application/x-ole-storage": rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "application/x-executable": rb"\x7fELF|MZ|[\xfe\xce\xcf]\xfa\xed\xfe|\xfe\xed\xfa[\xce\xcf]|\xca\xfe\xba\xbe",
        "application/wasm": rb"\x00asm",
        "application/vnd.sqlite3": rb"SQLite format 3\x00",
        "application/vnd.apache.parquet": rb"PAR[1E]",
        "application/vnd.apache.arrow.file": rb"ARROW1\x00\x00",
        "font/woff": rb"wOFF",
        "font/woff2": rb"wOF2",
        "font/sfnt": rb"\x00\x01\x00\x00\x00|true\x00|ttcf\x00|OTTO\x00",
        "text/html": rb"\s*<(!doctype html|!DOCTYPE html|!DOCTYPE HTML|html|HTML)[\s>]",
    }.items()
)
_PRINTABLE_YET_PLAIN = ("application/pdf", "text/html")
"""The signatures that are also looked for in texts. Any other could be the first word of a sentence."""

_ANYTHING = ("application/octet-stream", "application/x-binary")
"""Media types for bytes of any kind."""

_CLAIMS = {
    "image/apng": "image/png",
    "image/x-png": "image/png",
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-ms-bmp": "image/bmp",
    "image/vnd.microsoft.icon": "image/x-icon",
    "image/avif": "application/mp4",
    "image/heic": "application/mp4",
    "image/heif": "application/mp4",
    "image/openraster": "application/zip",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-aiff": "audio/aiff",
    "audio/mid": "audio/midi",
    "audio/mp4": "application/mp4",
    "audio/m4a": "application/mp4",
    "audio/x-m4a": "application/mp4",
    "audio/x-m4b": "application/mp4",
    "video/mp4": "application/mp4",
    "video/quicktime": "application/mp4",
    "video/3gpp": "application/mp4",
    "video/3gpp2": "application/mp4",
    "audio/ogg": "application/ogg",
    "video/ogg": "application/ogg",
    "audio/webm": "application/x-matroska",
    "audio/x-matroska": "application/x-matroska",
    "video/webm": "application/x-matroska",
    "video/x-matroska": "application/x-matroska",
    "video/avi": "video/x-msvideo",
    "application/x-pdf": "application/pdf",
    "application/x-zip-compressed": "application/zip",
    "application/java-archive": "application/zip",
    "application/vnd.android.package-archive": "application/zip",
    "application/x-gzip": "application/gzip",
    "application/x-tgz": "application/gzip",
    "application/x-compressed-tar": "application/gzip",
    "application/x-rar-compressed": "application/vnd.rar",
    "application/x-sqlite3": "application/vnd.sqlite3",
    "application/x-object": "application/x-executable",
    "application/x-sharedlib": "application/x-executable",
    "application/x-elf": "application/x-executable",
    "application/x-mach-binary": "application/x-executable",
    "application/x-msdownload": "application/x-executable",
    "application/x-dosexec": "application/x-executable",
    "application/vnd.microsoft.portable-executable": "application/x-executable",
    "application/java-vm": "application/x-executable",
    "application/x-font-otf": "font/sfnt",
    "font/ttf": "font/sfnt",
    "font/otf": "font/sfnt",
    "font/collection": "font/sfnt",
}
"""Other names of types that have a signature, and types that share the signature of another type."""

_MEDIA = ("image/", "audio/", "video/", "font/", "application/mp4", "application/ogg", "application/x-matroska")

_LATE = ("audio/mpeg", "audio/flac", "audio/midi", "application/x-tar", "application/pdf", "application/x-executable")
"""Types whose files may lack the signature, or have it after other bytes. Only text, or the signature of another type,
shows that a file is not one of these."""

_WRITTEN = (
    *("audio/x-mpegurl", "audio/x-scpls", "audio/x-ms-asx", "video/x-ms-asf", "video/vnd.mpegurl"),
    *("image/x-xbitmap", "image/x-xpixmap"),
)
"""Media types of playlists and of images in source code: texts that may begin in ways unknown to `puremagic`."""

_CONTAINERS = frozenset(
    f"application/{name}" for name in ("zip", "gzip", "x-bzip2", "x-xz", "zstd", "x-ole-storage", "vnd.sqlite3")
)
"""Signatures of formats in which documents of many types are kept, compressed or encrypted. If the claimed type is not
in the tables, such a signature shows nothing: `puremagic` knows only few of these documents by more than their name."""

_TEXT = re.compile(
    r"text/.*|message/.*|.*\+(json|xml|yaml)|application/(json.*|.*json|jsonl|xml|xml-.*|(x-)?(javascript|ecmascript|yaml|toml|sh"
    r"|perl|python|ruby|tex|latex|ndjson|pem-file)|typescript|sql|graphql|jwt|mbox|rtf|x-www-form-urlencoded)"
)
_NOT_HTML = re.compile(r"image/.*|.*(json.*|csv|tab-separated-values|yaml|toml|css|javascript|sql)")
_JSON = re.compile(rb"(\xef\xbb\xbf|\x1e)?\s*([\[{\"\d]|-\d|true|false|null|$)")
_XML = re.compile(rb"(\xef\xbb\xbf)?\s*(<|$)")
_ESCAPED = re.compile(rb"\\[0-7x]")
"""Matches a `puremagic` signature with undecoded escapes: four characters, `\\003`, in place of one byte."""


def plainly_other(head: bytes, media_type: str) -> str | None:
    """Return the type that content starting with `head` (up to HEAD_BYTES) plainly has instead of `media_type`.

    None if there is no such type. `text/plain` stands for any text, `application/octet-stream` for any other bytes.
    """
    essence, _, parameters = media_type.lower().partition(";")
    claimed = essence.strip()
    if claimed in _ANYTHING:
        return None
    wide = "utf-16" in parameters or "utf-32" in parameters
    text = wide or _is_text(head)
    found = _signature(head, text=text and not wide)
    if _TEXT.fullmatch(claimed):
        return _other_than_text(head, claimed, found, text=text)
    expected = _expected(claimed)
    if expected is None:
        return _other_than_rare(head, claimed, found, text=text)
    if found == expected or (found is None and not text and expected in _LATE):
        return None
    return found or ("text/plain" if text else "application/octet-stream")


def _other_than_rare(head: bytes, claimed: str, found: str | None, *, text: bool) -> str | None:
    """Return the type of content whose claimed type is not in the tables, if it certainly is another type."""
    media = claimed.startswith(_MEDIA)
    if found and media and not found.startswith(_MEDIA):
        return found
    if found and found not in _CONTAINERS and _lacks_signature(claimed, head):
        return found
    return "text/plain" if text and media and claimed not in _WRITTEN and _lacks_signature(claimed, head) else None


def _other_than_text(head: bytes, claimed: str, found: str | None, *, text: bool) -> str | None:
    if not text:
        return found or "application/octet-stream"
    if found == "text/html":
        return found if _NOT_HTML.fullmatch(claimed) else None
    if found or b"\0" in head:  # a text with NUL is UTF-16 or UTF-32, which the patterns below do not read
        return found
    pattern = _JSON if claimed.endswith(("/json", "+json")) else _XML if claimed.endswith(("/xml", "+xml")) else None
    return "text/plain" if pattern and not pattern.match(head) else None


def _expected(claimed: str) -> str | None:
    """Return the type whose signature the content must have; None if it needs none."""
    if claimed in _KNOWN:
        return claimed
    if claimed.endswith("+zip"):
        return "application/zip"
    if claimed.endswith("+gzip"):
        return "application/gzip"
    return _CLAIMS.get(claimed)


_KNOWN = frozenset(name for name, _ in _SIGNATURES)


def _signature(head: bytes, *, text: bool) -> str | None:
    for name, pattern in _SIGNATURES:
        if pattern.match(head) and (not text or name in _PRINTABLE_YET_PLAIN):
            return name
    return None


def _is_text(head: bytes) -> bool:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    strays = len(head) - len(head.translate(None, _CONTROL))
    return b"\0" not in head and strays <= len(head) * _CONTROL_SHARE


def _lacks_signature(claimed: str, head: bytes) -> bool:
    """Whether puremagic knows signatures of this type and the content shows none of them."""
    known = _puremagic_types().get(claimed, ())
    return bool(known) and not any(head[at : at + len(mark)] == mark for at, mark in known)


@cache
def _puremagic_types() -> dict[str, list[tuple[int, bytes]]]:
    known: dict[str, list[tuple[int, bytes]]] = {}
    for mark, offset, _, mime_type, _ in cast("list[tuple[bytes, int, str, str, str]]", puremagic.magic_header_array):
        if not _ESCAPED.search(mark):
            known.setdefault(mime_type.strip().lower(), []).append((offset, mark))
    # A signature of under 4 bytes is that of a container, or a common prefix: files of such a type may lack it.
    return {name: marks for name, marks in known.items() if all(len(mark) >= 4 for _, mark in marks)}
