"""What texts may hold: what is taken out of long ones, refused in short ones, and left in both."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.text.plain import first_sentence, is_one_line, readable

NOT_SEEN = {
    "a control character": "\x07",
    "a bidi override": "\u202e",
    "a noncharacter": "\ufffe",
    "a soft hyphen": "\u00ad",
    "a grapheme joiner": "\u034f",
    "a Hangul filler": "\u115f",
    "another Hangul filler": "\u1160",
    "a Hangul letter without a sign": "\u3164",
    "half of one": "\uffa0",
    "a Khmer vowel without a sign": "\u17b4",
    "a Mongolian separator": "\u180e",
    "a space without width": "\u200b",
    "a word joiner": "\u2060",
    "a deprecated format": "\u206a",
    "a byte order mark": "\ufeff",
    "a mark of an annotation": "\ufff9",
    "a selector of mathematics": "\ufe00",
    "a selector of ideographs": "\U000e0100",
    "a letter among tags": "\U000e0041",
    "a musical format": "\U0001d173",
}
SEQUENCES = ("👨\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "1\ufe0f\u20e3", "☎\ufe0e", "می\u200cروم", "क्\u200d")


@pytest.mark.parametrize("character", NOT_SEEN.values(), ids=NOT_SEEN.keys())
def test_what_nobody_sees_is_taken_out_of_a_text_and_refused_in_a_line(character: str) -> None:
    assert readable(f"before{character}after\nnext") == "beforeafter\nnext"
    assert readable(character * 3) == ""
    assert is_one_line("before")
    assert not is_one_line(f"before{character}after")


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_what_makes_up_an_emoji_or_a_word_stays(sequence: str) -> None:
    assert readable(f"See {sequence} here\n") == f"See {sequence} here\n"
    assert is_one_line(f"See {sequence} here")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\u200d\u200c\ufe0f", ""),
        ("\u200dfirst", "first"),
        ("one \ufe0ftwo\n\u200cthree", "one two\nthree"),
        ("bits\u200c\u200d\u200d\u200c\u200d", "bits\u200c"),
        ("bits\ufe0e\ufe0f\ufe0e", "bits\ufe0e"),
        ("bits\ufe0f\u200d\ufe0f\u200d", "bits\ufe0f\u200d"),
        ("\u200b\u200dfirst", "first"),
    ],
)
def test_a_joiner_without_anything_to_join_does_not(text: str, left: str) -> None:
    assert readable(text) == left
    assert not is_one_line(text)


def test_words_in_tags_are_not_kept_even_behind_a_flag() -> None:
    assert readable("🏴" + "".join(chr(0xE0000 + ord(letter)) for letter in "obey me")) == "🏴"


def test_terminal_sequences_go_whole() -> None:
    assert readable("\x1b[31mred\x1b[0m \x1b]8;;https://x.example\x07link\x1b]8;;\x07") == "red link"


def test_a_plain_text_is_itself() -> None:
    for text in ("", "Plain.", "Two\n\tlines.\r\n", "déjà vu… “quoted”", "日本語 한국어 עברית"):
        assert readable(text) == text


@given(st.text(st.characters(exclude_categories=("Cs",)) | st.sampled_from("\u200c\u200d\ufe0e\ufe0f\u200b\x1b[ ")))
def test_what_was_made_readable_stays_as_it_is(text: str) -> None:
    shown = readable(text)
    assert readable(shown) == shown
    assert is_one_line(" ".join(shown.split()))
    assert is_one_line(first_sentence(text, 20))
    assert not any(unicodedata.category(character) == "Cc" for character in "".join(shown.split()))
