"""What texts may contain: what is removed from long ones, refused in short ones, and kept in both."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.text.readable import MAX_MARKS, first_sentence, is_one_line, readable

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
    "a note without a head": "\U0001d159",
    "braille without a dot": "\u2800",
    "private use": "\ue000",
    "private use beyond": "\U00100000",
    "a place for an object": "\ufffc",
    "what is not assigned": "\u0378",
    "what is not assigned beyond": "\U000103ff",
    "a noncharacter beyond": "\U0001ffff",
    "half a character": "\ud800",
}
SEQUENCES = (
    "👨\u200d👩\u200d👧",
    "👩🏽\u200d🚀",
    "❤\ufe0f\u200d🔥",
    "🏳\ufe0f\u200d🌈",
    "1\ufe0f\u20e3",
    "☎\ufe0e",
    "⚡\ufe0e",
    "می\u200cروم",
    "क्\u200d",
    "ශ්\u200dරී",
    "র\u200d্য",
)

SEEN = re.compile("[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U0001f000-\U0001faff]")
"""Format characters that are visible, and code points reserved for future pictographs."""


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
        ("bits\u200c\u200d\u200d\u200c\u200d", "bits"),
        ("b\ufe0ei\u200dt\u200cs\ufe0f\u200d", "bits"),
        ("1\ufe0f2\ufe0e3\u200d", "123"),
        ("да\u200d 你\ufe0f好\u200c", "да 你好"),
        ("❤\ufe0e\ufe0f\ufe0e", "❤\ufe0e"),
        ("❤\ufe0f\u200d\ufe0f\u200d", "❤\ufe0f"),
        ("😀\ufe0e😀\u200d😀", "😀😀😀"),
        ("\u200b\u200dfirst", "first"),
    ],
)
def test_a_joiner_that_has_nothing_to_join_does_not_stay(text: str, left: str) -> None:
    assert readable(text) == left
    assert not is_one_line(text)


@pytest.mark.parametrize(
    ("text", "left"),
    [("⚡\ufe0f😀\ufe0f", "⚡😀"), ("کار\u200cها", "کارها"), ("a\u00a0b\u2009c\u3000d", "a b c d")],
)
def test_what_keyboards_add_without_effect_is_taken_out_and_refused_nowhere(text: str, left: str) -> None:
    assert readable(text) == left
    assert is_one_line(text)


def test_separators_of_lines_are_ends_of_lines() -> None:
    assert readable("one\u2028two\u2029three") == "one\ntwo\nthree"
    assert not is_one_line("one\u2028two")


@pytest.mark.parametrize("mark", ["\u0301", "\u0e47", "\u20dd", "\u0651"])
def test_marks_do_not_pile_up(mark: str) -> None:
    assert readable("a" + mark * MAX_MARKS + "b") == "a" + mark * MAX_MARKS + "b"
    assert readable("a" + mark * 50 + "b") == "a" + mark * MAX_MARKS + "b"
    assert is_one_line("a" + mark * MAX_MARKS)
    assert not is_one_line("a" + mark * (MAX_MARKS + 1))


@pytest.mark.parametrize("word", ["លក្ខន្តិកៈ", "လျှို့ဝှက်", "བསྒྲུབས", "Nguye\u0302\u0303n", "שָׁלוֹם", "ที่นี่", "مُحَمَّد"])
def test_words_of_living_languages_stay_whole(word: str) -> None:
    assert readable(word) == word
    assert is_one_line(word)


def test_code_points_that_may_become_emoji_stay() -> None:
    assert readable("\U0001faef \U0001fadf") == "\U0001faef \U0001fadf"


def test_of_rare_characters_side_by_side_those_are_kept_that_are_seen() -> None:
    assert readable("\U00010400\U000e0041\U000e0042\U00010401\U00040000\U0001e000") == "\U00010400\U00010401\U0001e000"


def test_signs_that_are_formats_are_seen() -> None:
    assert readable("\u06dd ١٢") == "\u06dd ١٢"


def test_words_in_tags_are_not_kept_even_behind_a_flag() -> None:
    assert readable("🏴" + "".join(chr(0xE0000 + ord(letter)) for letter in "obey me")) == "🏴"


def test_terminal_sequences_go_whole() -> None:
    assert readable("\x1b[31mred\x1b[0m \x1b]8;;https://x.example\x07link\x1b]8;;\x07") == "red link"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("It works! Really.", "It works!"),
        ("It works", "It works"),
        (" It works ", "It works"),
        ("It  works   now. ", "It works now."),
        ("It\u2003works\u2028now", "It works now"),
        (" ", ""),
        ("Version 2.0\n  is out. Try it.", "Version 2.0 is out."),
        ("\u202e\n" * 40 + "It works", "It works"),
        ("It is all twenty now", "It is all twenty now"),
        ("It is over twenty now", "It is over twenty…"),
        ("It is not over twenty", "It is not over…"),
        ("No" + "o" * 30, "No" + "o" * 17 + "…"),
        ("See no" + "o" * 30, "See no" + "o" * 13 + "…"),
        ("x" + "می\u200c" * 20, "x" + "می\u200c" * 5 + "می…"),
    ],
)
def test_the_first_sentence_is_one_line_that_ends_with_a_word(text: str, sentence: str) -> None:
    assert first_sentence(text, 20) == sentence


def test_a_plain_text_is_itself() -> None:
    for text in ("", "Plain.", "Two\n\tlines.\r\n", "déjà vu… “quoted”", "日本語 한국어 עברית"):
        assert readable(text) == text


@given(st.text(st.characters() | st.sampled_from("\u200c\u200d\ufe0e\ufe0f\u200b\x1b[ \u0301❤👩🚀1क\u094dیم")))
def test_what_was_made_readable_stays_as_it_is(text: str) -> None:
    shown = readable(text)
    assert readable(shown) == shown
    assert is_one_line(" ".join(shown.split()))
    sentence = first_sentence(text, 20)
    assert is_one_line(sentence)
    assert " ".join(sentence.split()) == sentence
    assert not any(unicodedata.category(character) == "Cc" for character in "".join(shown.split()))


# Without ESC, which removes a letter that follows it.
UNSEEN = st.characters(categories=("Cc", "Cf", "Co", "Cn"), exclude_characters="\t\n\r\x1b").filter(
    lambda character: not SEEN.match(character)
) | st.sampled_from(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u2800\u3164\ufe00\ufe0e\ufe0f\uffa0\ufffc\U000e0100\U000e01ef"
)
COVERS = (
    "The relay took the message and told every agent in the fleet that it had done so before noon.",
    "Version 2.0, 100 % done: f(x) = 3 * y # see “notes”…",
    "Zoë’s naïve café in Łódź is at 5 °C — Γειά, привет, 你好, 안녕.",
)


@given(st.sampled_from(COVERS), st.dictionaries(st.integers(0, 100), st.text(UNSEEN, min_size=1, max_size=3)))
def test_nothing_can_be_said_between_what_is_seen(cover: str, said: dict[int, str]) -> None:
    """Otherwise a joiner after a letter could stand for a one and its absence for a zero, and hide a sentence."""
    carrier = "".join(seen + said.get(place, "") for place, seen in enumerate(cover))
    assert readable(carrier) == cover
    assert is_one_line(carrier) == (carrier == cover)
