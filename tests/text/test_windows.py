"""Windows: cleaning, cutting and sampling, and the count of letters of other scripts."""

import pytest

from node.text.windows import WINDOW, WINDOWS, clean, non_latin, windows


def test_a_short_text_is_one_window() -> None:
    assert windows("hello") == ["hello"]
    assert windows("") == [""]


def test_a_medium_text_is_cut_at_spaces_and_nothing_is_lost() -> None:
    text = "seven words make up this short sentence " * 20
    parts = windows(text)
    assert len(parts) == -(-len(text) // WINDOW)
    assert "".join(parts) == text
    assert all(part.startswith(" ") for part in parts[1:])


def test_a_medium_text_without_spaces_is_cut_anywhere() -> None:
    text = "新" * 500
    assert "".join(windows(text)) == text
    assert len(windows(text)) == 4


def test_a_long_text_is_sampled_from_its_first_to_its_last_character() -> None:
    text = "first " + "middle " * 10_000 + "last"
    parts = windows(text)
    assert len(parts) == WINDOWS
    assert parts[0].startswith("first")
    assert parts[-1].endswith("last")
    assert all(part.startswith("middle") for part in parts[1:])


def test_a_sampled_window_of_text_without_spaces_stays_whole() -> None:
    assert all(len(part) == WINDOW for part in windows("新" * 100_000))


def test_the_number_of_windows_can_be_lowered() -> None:
    text = "word " * 1_000
    assert len(windows(text, 2)) == 2
    assert len(windows("word " * 40, 2)) == 2


def test_control_characters_and_lone_surrogates_become_spaces() -> None:
    assert clean("a\0b\x07\x85c\ud800d\uffffe\nf") == "a b c d e f"


def test_terminal_codes_and_invisible_characters_vanish() -> None:
    assert clean("\x1b[1;31mred\x1b[0m") == "red"
    assert clean("h\u200bé\u00ad\ufeffy") == "héy"
    assert clean("h\u034fé\u3164y\U000e0100") == "héy"  # which Python calls printable


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("plain", (0, 0)),
        ("déjà vu ﬁne", (0, 0)),
        ("да", (2, 2)),
        ("yes да", (2, 5)),
        ("你好", (4, 4)),
        ("λ = 2, Δt, ² ½ Ⅳ №", (0, 0)),
        ("ab λόγος", (5, 7)),
    ],
)
def test_letters_of_other_scripts_are_counted_and_dense_ones_twice(text: str, count: tuple[int, int]) -> None:
    assert non_latin(text) == count
