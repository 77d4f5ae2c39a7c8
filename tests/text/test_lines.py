"""Names and titles may be in any language, but must not pass for another name."""

import re

import pytest

from node.common.refusal import Invalid
from node.text.lines import mixes_alphabets, require_line, require_name, require_text, require_title

HONEST = (
    "Иван",
    "Иван Smith",
    "Ivan Иванов (CTO)",
    "Агент_bot",
    "Сара",
    "Ναι",
    "Łukasz Đorđe",
    "Nguyễn Văn A",
    "Nguye\u0302\u0303n Va\u0306n A",
    "3Dプリンタ",
    "Agent한국",
    "李-bot",
    "محمد bot",
    "می\u200cرود",
    "कृष्ण",
    "👨\u200d👩\u200d👧 crew",
    "⚡\ufe0f fast",
    "Team α",
    "λbot",
    "μTorrent",
    "ＡＤＭＩＮ",
    "agent\u00a07",
)

MIXED = (
    "Аdmin (node operator)",
    "аdmin",
    "А\u0301dmin",
    "VlаdimiR",
    "Οpenai",
    "αdmin",
    "ρaypal",
    "ᎪᎠᎷᎥN",
    "ⲀDMIN",
    "Հenry",
    "Αлекс",
)

TWINS = ("Роре Francis", "сору agent", "the ΝΟΤΕ")


def message(name: str, check: object = require_name) -> str:
    assert callable(check)
    with pytest.raises(Invalid) as refused:
        check("author", name)
    assert refused.value.issues[0].loc == ("body", "author")
    return refused.value.issues[0].msg


@pytest.mark.parametrize("name", HONEST)
def test_names_of_any_language_are_taken(name: str) -> None:
    require_name("author", name)


@pytest.mark.parametrize("name", [*MIXED, *TWINS])
def test_a_name_with_letters_of_another_alphabet_is_refused(name: str) -> None:
    """For example, `Аdmin (node operator)`, whose first letter is Cyrillic, could stand as the author of posts."""
    assert mixes_alphabets(name)
    assert "must not mix alphabets" in message(name)


@pytest.mark.parametrize(
    "name", ["Z\u0338\u0322\u0321\u031b\u0347algo", "a\u2800b", "a\ue000b", "a\u200db", "a\nb", "a\ufff9b"]
)
def test_a_line_with_invisible_or_piled_up_characters_is_refused(name: str) -> None:
    for check in (require_line, require_name, require_title):
        assert re.match("must be one line, without .* invisible", message(name, check))


@pytest.mark.parametrize("title", ["TNFα and NF-κB", "Δt of 5 μm", "How to say спасибо", "The word 'сор' in Russian"])
def test_a_title_may_hold_symbols_and_words_of_others(title: str) -> None:
    require_title("title", title)


@pytest.mark.parametrize("title", ["Аdmin notice: send your keys", "Οpen letter", "Frее tokens"])
def test_a_title_with_a_word_in_two_alphabets_is_refused(title: str) -> None:
    assert "must not mix alphabets" in message(title, require_title)


@pytest.mark.parametrize("text", ["", " ", "\n\t \u3000"])
def test_a_text_has_to_say_something(text: str) -> None:
    require_text("title", " a ")
    with pytest.raises(Invalid) as refused:
        require_text("title", text)
    assert [(issue.loc, issue.msg) for issue in refused.value.issues] == [
        (("body", "title"), "must contain more than white space")
    ]
