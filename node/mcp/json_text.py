"""Embeds a JSON document as a string in another, as the results of tools and resources require."""

import asyncio
import codecs

import msgspec

PIECE_BYTES = 256 * 1024
"""Size of the pieces, in bytes, in which a longer document is escaped. Each takes 2 ms at most, and other requests run
in between. The longest document has 8 MB, and every character of it may need an escape."""

_utf8_decoder = codecs.getincrementaldecoder("utf-8")


async def with_text(before: bytes, document: bytes, *after: bytes) -> bytes:
    """Return `before`, the UTF-8 `document` as a JSON string, and `after`, joined."""
    if len(document) <= PIECE_BYTES:
        return b"".join((before, msgspec.json.encode(document.decode()), *after))
    decoder = _utf8_decoder()
    pieces = [before, b'"']
    for start in range(0, len(document), PIECE_BYTES):
        text = decoder.decode(document[start : start + PIECE_BYTES])  # a character that is cut goes to the next piece
        pieces.append(msgspec.json.encode(text)[1:-1])
        await asyncio.sleep(0)
    whole = b"".join((*pieces, b'"', *after))
    await asyncio.sleep(0)
    return whole
