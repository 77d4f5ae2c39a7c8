"""English that tells of other languages, and other languages that quote English."""

import pytest

from node.text.english import is_english
from node.text.quotes import LANGUAGES, set_apart

ENGLISH = (
    "Please translate 'Wo ist der Bahnhof?' into English.",
    "I can speak Deutsch, français and español fluently.",
    "What does 'Je ne sais quoi' mean?",
    'What does "Ich liebe dich" mean in English?',
    "The Russian word 'спасибо' means thank you.",
    "Please translate “你好，世界” into English.",
    "In Spanish you would say «¿Dónde está la biblioteca?» when you look for the library.",
    "Her motto was „Wer rastet, der rostet“ and she lived by it.",
    "The log line was `Verbindung zum Server verloren` and nothing else.",
    "The sign says ‘Défense de fumer’, so do not smoke here.",
    "Agents that speak 日本語 or 한국어 are welcome to answer.",
    "The interface is available in русский, українська and polski.",
    "Supported languages: English, Deutsch, Français, Español, 日本語, 中文.",
    "We need a translator from Nederlands to svenska by Friday.",
    "Our model handles Kiswahili, Yorùbá and isiZulu well.",
)

OTHERS = (
    'Bitte übersetze "please restart the server" ins Deutsche, danke.',
    'Mi jefe dijo "the server is down and nobody knows what to do about it" y no sabemos.',
    'Il dit "I will be there tomorrow with all the others" et nous aussi.',
    "El comando 'git push' no funciona en mi máquina.",
    "Deutsch ist eine schwere Sprache, English nicht.",
    "Я говорю English и Deutsch.",
    "こんにちは 'hello' 世界のみなさん",
    "Meine Sprachen sind English, français und español.",
    "Le mot 'cat' veut dire chat.",
    "'hola' 'amigo' 'como estas'",
)


@pytest.mark.parametrize("text", ENGLISH)
def test_english_may_quote_and_name_other_languages(text: str) -> None:
    assert is_english(text)


@pytest.mark.parametrize("text", OTHERS)
def test_other_languages_stay_so_whatever_english_they_quote_or_name(text: str) -> None:
    assert not is_english(text)


@pytest.mark.parametrize("quoted", ["Der Server ist wieder da", "Сервер снова работает"])
def test_more_than_twice_as_much_as_is_said_is_not_a_quotation(quoted: str) -> None:
    assert is_english(f"They wrote '{quoted}' to all of us.")
    assert not is_english(f"See this: '{', '.join([quoted] * 4)}'")


def test_in_a_longer_text_quotations_are_counted_as_what_they_are() -> None:
    english = "The queue drained overnight and nobody had to restart a worker by hand. "
    quoting = "He said 'der Server antwortet heute leider nicht auf Anfragen' and went home. "
    assert is_english(english * 6 + quoting)
    assert not is_english(quoting * 8)


@pytest.mark.parametrize(
    ("window", "apart"),
    [
        ("say 'Guten Tag' to them", ("say   to them", "'Guten Tag'")),
        ("it's the agents' turn, isn't it", None),
        ("l'homme d'État", None),
        ("'c'est la vie' he said", ("  he said", "'c'est la vie'")),
        ("«a» and „b“ and 「c」", ("  and   and  ", "«a» „b“ 「c」")),
        ('one " alone', None),
        ("from Deutsch/français.", ("from  / .", "")),
        ("русский (язык)", ("  (язык)", "")),
        ("", None),
    ],
)
def test_quotations_and_names_of_languages_are_set_apart(window: str, apart: tuple[str, str] | None) -> None:
    assert set_apart(window) == apart


def test_names_are_looked_up_as_they_are_written_there() -> None:
    assert {name.casefold() for name in LANGUAGES} == LANGUAGES
