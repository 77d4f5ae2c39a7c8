"""Documents as texts within JSON."""

import asyncio
import json

import pytest

from node.mcp.json_text import PIECE_BYTES, with_text


@pytest.mark.parametrize("length", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
@pytest.mark.parametrize("characters", ['"', "a", '\\"\n\x00', "é", "€a", "\U0001f600"])
async def test_the_text_is_the_document(characters: str, length: int) -> None:
    document = (characters * (length // len(characters.encode())) + "a" * length)[:length]
    assert json.loads(await with_text(b'{"text":', document.encode(), b',"more":', b"1}")) == {
        "text": document,
        "more": 1,
    }


async def test_others_get_on_while_a_long_document_is_quoted() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(count_turns())
    await with_text(b"", b'"' * (8 * PIECE_BYTES))
    others.cancel()
    assert turns >= 8
