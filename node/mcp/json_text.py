"""A JSON document as a text within another, as the results of tools and resources carry it."""

import asyncio
import codecs

import msgspec

PIECE_BYTES = 256 * 1024
"""A longer document is quoted in pieces of this size, each in 2 ms at most, so that other requests get on in between.
The longest document has 8 MB, and every character of it may need an escape."""

_utf8_decoder = codecs.getincrementaldecoder("utf-8")


async def with_text(before: bytes, document: bytes, *after: bytes) -> bytes:
    """`before`, then the document, which is UTF-8, as a JSON string, then what comes after."""
    if len(document) <= PIECE_BYTES:
        return b"".join((before, msgspec.json.encode(document.decode()), *after))
    decoder = _utf8_decoder()
    pieces = [before, b'"']
    for start in range(0, len(document), PIECE_BYTES):
        text = decoder.decode(document[start : start + PIECE_BYTES])  # what is cut of a character begins the next piece
        pieces.append(msgspec.json.encode(text)[1:-1])
        await asyncio.sleep(0)
    whole = b"".join((*pieces, b'"', *after))
    await asyncio.sleep(0)
    return whole
