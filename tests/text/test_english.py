"""A single text: what the gate accepts, what it refuses, and what it is known to get wrong."""

import os
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from node.text.english import is_english, preload
from node.text.payload import payload_is_english, text_payload_is_english
from node.text.verdict import second_opinion
from node.text.windows import WINDOW_CHARACTERS
from tests.text import languages

MUST_PASS = (
    "ok",
    "ping",
    "hello",
    "ack",
    "👍",
    "42",
    "{}",
    "",
    "deploy v2 to prod",
    "NVDA earnings up 3%",
    "018f3c1e-7b1a-7cc2-9d3f-2a4b5c6d7e8f",
    "https://example.com/hola/mundo?lang=es",
    "https://example.com/" + "como-reiniciar-el-servidor-" * 9,
    "SGVsbG8gd29ybGQsIHRoaXMgaXMgYmFzZTY0Lg==",
    '{"hello":"world"}',
)

MUST_FAIL = (
    "hola",
    "bonjour",
    "danke",
    "привет",
    "你好",
    "Hola mundo",
    "Bonjour le monde",
    "Guten Tag",
    "hola como estas amigo",
    "privet kak dela",
)

ENGLISH = (
    "Task claimed, starting now.",
    "I'm Zorblax-7, an indexing agent. Does anyone need embeddings refreshed?",
    "lgtm, merging",
    "brb",
    "wdyt?",
    "GPU OOM on node-7, retrying…",
    "TypeError: 'NoneType' object is not subscriptable",
    "ready to negotiate: 3 USDC per 1k tokens",
    "please summarize https://arxiv.org/abs/1706.03762 for bob@example.com",
    "Looking for a translator agent (EN->DE).",
    "tokenizer mismatch: expected cl100k_base",
    "import json\nprint(json.dumps({'a': 1}))",
    "It's what they'd've called the agent\u2019s last word.",
    "Who was Muammar al-Qadhafi?",
    "Contact Lothar de Maizière for access.",
    "agentic observability",
    "queuelength, retryable, unmerged, cacheable",
    "#ifdef __cplusplus\n#endif",
    '<ul class="menu">\n<li><a href="#top">Top</a></li>\n</ul>',
    "8c de 41 fa c3 da 77 fe 52 e1 be 79 ba 45 9c af",
)

FOREIGN = (
    "Wie geht es dir heute?",
    "Je ne sais pas",
    "Obrigado pela ajuda",
    "De server is opnieuw gestart",
    "Il modello non risponde",
    "İstanbul çok güzel bir şehir",
    "zażółć gęślą jaźń",
    "Daar is bier",
    "Wifi jest zajęty",
    "Сервер снова работает",
    "サーバーは再起動しました",
    "الخادم يعمل الآن",
)


@pytest.mark.parametrize("text", MUST_PASS)
def test_what_agents_send_all_day_passes(text: str) -> None:
    assert text_payload_is_english(text)


@pytest.mark.parametrize("text", MUST_FAIL)
def test_plainly_foreign_text_fails_however_short(text: str) -> None:
    assert not is_english(text)


@pytest.mark.parametrize("text", [*MUST_FAIL, *FOREIGN])
def test_a_leading_nul_hides_nothing(text: str) -> None:
    assert not is_english("\0" + text)


@pytest.mark.parametrize("text", ENGLISH)
def test_english_with_names_code_and_typing_habits_passes(text: str) -> None:
    assert is_english(text)


@pytest.mark.parametrize("text", FOREIGN)
def test_sentences_of_other_languages_fail(text: str) -> None:
    assert not is_english(text)


def test_terminal_colours_neither_condemn_english_nor_hide_other_words() -> None:
    assert is_english("\x1b[31mbuild failed\x1b[0m on three nodes")
    assert not is_english("\x1b[31mhola\x1b[0m mundo")


def test_invisible_characters_inside_a_word_do_not_hide_it() -> None:
    assert not is_english("ho\u200bla")
    assert not is_english("bon\u00adjour")
    assert is_english("hel\u200blo")


def test_a_word_of_another_script_may_be_quoted_but_a_sentence_may_not() -> None:
    assert is_english("In Japanese the name of the country is 日本, as every student learns in the first week.")
    assert not is_english("The answer was: 新版本已经成功部署所有服务都正常运行")


@pytest.mark.parametrize(
    "text", ["Latency: 5 µs", "p95 = 12 µs", "Area: 10 m²", "E = mc²", "x² + y² = z²", "σ² = 4", "λ₁ > λ₂", "x₁ + x₂"]
)
def test_measurements_and_formulas_are_no_words(text: str) -> None:
    assert is_english(text)


@pytest.mark.parametrize("text", ["Necesito² ayuda² urgente²", "Ne²cesito ay²uda ur²gente", "Привет² друг²"])
def test_raised_digits_hide_no_words(text: str) -> None:
    assert not is_english(text)


def test_greek_symbols_of_formulas_are_no_greek() -> None:
    assert is_english("β = 0.05, λ = 2, Δt of 3 μs")
    assert not is_english("καλημέρα σε όλους")


def test_a_foreign_sentence_beside_an_english_one_of_its_length_fails() -> None:
    english = "The new version is live and all the services answer well. "
    foreign = "La nueva versión fue desplegada y todos los servicios responden bien. "
    assert is_english(english)
    assert not is_english(english + foreign)


def test_a_foreign_quarter_of_a_long_text_fails() -> None:
    english = "The queue drained overnight and nobody had to restart a worker by hand. " * 15
    foreign = "Warteschlange wurde nachts abgearbeitet, niemand musste einen Prozess neu starten. " * 5
    assert is_english(english)
    assert not is_english(english + foreign)


WINDOWS = {
    "E": languages.ENGLISH[0],
    "F": languages.FOREIGN["German"][0],
    "y": "Please ping Xanthor, Brimble, Quandle and Fizzwick about frobnicating the zorblax queue.",
    "n": "Server zorblax frobnicates quandle widgets, brimble retries fizzwick jobs tonight.",
}
"""A window that is surely English, one that is surely not, and two that cannot be decided by their words: cld3 says yes
for the first and no for the second.
"""


@pytest.mark.parametrize(
    ("pattern", "passes", "asked"),
    [
        ("EEEEEEEEFF", True, 0),
        ("FFEEEEEEEE", True, 0),
        ("EEEEEEEFFF", False, 0),
        ("EEEEEEEEnn", True, 0),
        ("EEEEEEEnnn", False, 3),
        ("EEEEEEyyyy", True, 2),
        ("EEEEEEEFnn", False, 2),
        ("nnnnnnnnnn", False, 2),
        ("yyyyyyyyyyy", True, 9),
        ("FFFFnnnn", False, 0),
    ],
)
def test_a_fifth_of_the_words_of_a_text_decides_and_cld3_is_asked_where_it_could_matter(
    monkeypatch: pytest.MonkeyPatch, pattern: str, *, passes: bool, asked: int
) -> None:
    asks: list[list[str]] = []

    def counted(words: list[str]) -> float:
        asks.append(words)
        return second_opinion(words)

    monkeypatch.setattr("node.text.english.second_opinion", counted)
    assert is_english("".join(WINDOWS[window].ljust(WINDOW_CHARACTERS) for window in pattern)) == passes
    assert len(asks) == asked


def test_foreign_text_in_the_middle_of_a_long_english_one_fails() -> None:
    english = "Every agent in the fleet reported its status before the deadline. " * 50
    foreign = "Jeder Agent der Flotte hat seinen Zustand vor Ablauf der Frist gemeldet. " * 50
    assert not is_english(english + foreign + english)


@pytest.mark.parametrize("repeats", [1, 30, 300, 16_000])
def test_length_does_not_change_the_verdict(repeats: int) -> None:
    assert is_english("The relay took the message and said so. " * repeats)
    assert not is_english("Le relais a pris le message et il l'a dit. " * repeats)


def test_long_chinese_text_without_spaces_fails() -> None:
    assert not is_english("新版本已经成功部署所有服务都正常运行" * 1_000)


def test_foreign_words_joined_as_identifiers_fail() -> None:
    assert not is_english("hola_mundo")
    assert not is_english("ich,komme,nicht,morgen")
    assert is_english("hello_world")
    assert is_english("stdin,stdout,stderr")
    assert is_english("user_id.created_at")


def test_one_foreign_sentence_among_ten_may_pass() -> None:
    """A known limitation: the gate judges the language of a text as a whole, not each of its sentences."""
    english = "The index was rebuilt and the search answers again as it did before the update. " * 9
    assert is_english(english + "La recherche marche.")


def test_foreign_words_spelt_with_digits_pass() -> None:
    """A known limitation: the gate takes every word with a digit for an identifier."""
    assert is_english("h0la mund0")


@given(st.text(st.characters(exclude_categories=())))
@example("\ud800")
@example("\udfff hello \ud800")
@example("\0")
@example("İ" * 200)
@example("quid pro quo")
@example("' '' '''")
@settings(max_examples=300)
def test_no_text_makes_it_raise(text: str) -> None:
    assert is_english(text) in (True, False)
    assert text_payload_is_english(text) in (True, False)


@pytest.mark.parametrize(
    "character",
    [
        "a",
        "A",
        "é",
        "-",
        "/",
        "(",
        "{",
        "[",
        '"',
        "\\",
        "\n",
        " ",
        "@",
        "'",
        "\0",
        "\x1b",
        "\u0301",
        "\ud800",
        "你",
        "👍",
    ],
)
def test_a_mebibyte_of_one_character_does_not_make_it_raise(character: str) -> None:
    text = character * 2**20
    assert text_payload_is_english(text) in (True, False)
    assert payload_is_english({"message": text, "data": [text]}) in (True, False)


@pytest.mark.parametrize("length", [4, 10, 199, 1_500, 2_000, 20_000])
@pytest.mark.parametrize("letter", ["x", "o", "Y", "é"])
def test_padding_passes_however_long(letter: str, length: int) -> None:
    assert is_english(letter * length)
    assert is_english("padding " + letter * length)


@pytest.mark.parametrize(
    "text", ["[" * 16_000, "[" * 8_000 + "]" * 8_000, '{"a":' * 3_000, '"' * 16_000, "[" + "9" * 9_000 + "]"]
)
def test_malformed_or_deep_json_is_judged_as_text(text: str) -> None:
    assert text_payload_is_english(text)


def test_modules_for_readable_text_load_no_detector() -> None:
    program = "import sys, node.text, node.text.readable, node.text.lines; print('gcld3' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "False\n"


def test_loading_it_twice_does_no_harm() -> None:
    preload()
    preload()
    assert is_english("hello again")
