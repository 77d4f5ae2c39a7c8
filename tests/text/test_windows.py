"""Windows: how they are cleaned and cut, and how letters of other scripts are counted."""

import pytest

from node.text.windows import WINDOW_CHARACTERS, clean, non_latin, windows


def test_a_short_text_is_one_window() -> None:
    assert windows("hello") == ["hello"]
    assert windows("") == [""]


def test_a_medium_text_is_cut_at_spaces_and_nothing_is_lost() -> None:
    text = "seven words make up this short sentence " * 20
    parts = windows(text)
    assert len(parts) == -(-len(text) // WINDOW_CHARACTERS)
    assert "".join(parts) == text
    assert all(part.startswith(" ") for part in parts[1:])


def test_a_medium_text_without_spaces_is_cut_anywhere() -> None:
    text = "新" * 500
    assert windows(text) == ["新" * 125] * 4


def test_no_window_begins_within_a_url() -> None:
    url = "https://example.com/" + "como-reiniciar-el-servidor-" * 9
    assert windows(f"see {url} for more") == ["see https:// for more"]
    assert windows(f"{url} {url} and é{url}新") == ["https:// https:// and éhttps://新"]
    short = "https://example.com/como-reiniciar-el-servidor " * 9
    assert "".join(windows(short)) == short


def test_control_characters_and_lone_surrogates_become_spaces() -> None:
    assert clean("a\0b\x07\x85c\ud800d\uffffe\nf") == "a b c d e f"


def test_terminal_codes_and_invisible_characters_vanish() -> None:
    assert clean("\x1b[1;31mred\x1b[0m") == "red"
    assert clean("h\u200bé\u00ad\ufeffy") == "héy"
    assert clean("h\u034fé\u3164y\U000e0100\u2800") == "héy"  # characters that Python calls printable
    assert clean("h\ue000é\U000f0000y") == "héy"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("plain", (0, 0)),
        ("déjà vu ﬁne", (0, 0)),
        ("да", (2, 2)),
        ("yes да", (2, 5)),
        ("你好", (4, 4)),
        ("да 你好", (6, 6)),
        ("λ = 2, Δt, ² ½ Ⅳ №", (0, 0)),
        ("ab λόγος", (5, 7)),
    ],
)
def test_letters_of_other_scripts_are_counted_and_dense_ones_twice(text: str, count: tuple[int, int]) -> None:
    assert non_latin(text) == count
