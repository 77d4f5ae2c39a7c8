"""JSON documents as texts within JSON."""

import json

import pytest

from node.mcp.json_text import PIECE_BYTES, with_text
from tests.support.other_turns import OtherTurns


@pytest.mark.parametrize("length", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
@pytest.mark.parametrize("characters", ['"', "a", '\\"\n\x00', "é", "€a", "\U0001f600"])
async def test_the_text_is_the_document(characters: str, length: int) -> None:
    document = (characters * (length // len(characters.encode())) + "a" * length)[:length]
    assert json.loads(await with_text(b'{"text":', document.encode(), b',"more":', b"1}")) == {
        "text": document,
        "more": 1,
    }


async def test_others_get_on_while_a_long_document_is_quoted() -> None:
    async with OtherTurns() as others:
        await with_text(b"", b'"' * (8 * PIECE_BYTES))
    assert others.count >= 8
