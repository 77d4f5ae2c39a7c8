"""English that mentions other languages, and other languages that quote English."""

import pytest

from node.text.english import is_english
from node.text.quotes import LANGUAGES, MAX_OPENINGS, opens_few, set_apart, without_quoted_lines

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
    'Please translate "Die Datei wurde nicht gefunden, bitte versuchen Sie es später noch einmal." into English.',
    "What does 'Наш сервер не отвечает со вчерашнего вечера' mean?",
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
def test_more_than_four_times_as_much_as_is_said_is_not_a_quotation(quoted: str) -> None:
    assert is_english(f"They wrote '{quoted}' to all of us.")
    assert not is_english(f"See this: '{', '.join([quoted] * 4)}'")


def test_in_a_longer_text_quotations_are_counted_as_what_they_are() -> None:
    english = "The queue drained overnight and nobody had to restart a worker by hand. "
    quoting = "He said 'der Server antwortet heute leider nicht auf Anfragen' and went home. "
    assert is_english(english * 6 + quoting)
    assert not is_english(quoting * 8)


SENTENCE = "Der Server antwortet seit gestern leider nicht mehr auf unsere Anfragen."


@pytest.mark.parametrize(
    "quotation", [f'"{SENTENCE}"', f"„{SENTENCE}“", f"'{SENTENCE}'", "«Сервер не отвечает с утра»"]
)
@pytest.mark.parametrize("words_before", range(0, 40, 3))
def test_more_english_around_a_quotation_does_not_condemn_it(quotation: str, words_before: int) -> None:
    english = ["the", "operator", "of", "the", "export", "job", "asked", "us", "before", "noon", "what", "to", "do"]
    more = " ".join((english * 4)[:words_before])
    request = f"Please say what {quotation} means, and how urgent it is for our team."
    assert is_english(f"{more} {request}")
    assert is_english(f"{request} {more}")


def test_what_is_around_a_quotation_has_to_be_english_in_a_longer_text_too() -> None:
    quoting = f"The operator of the export job wrote: '{SENTENCE}' Please tell us today what that means. "
    assert is_english(quoting)
    assert not is_english(quoting + "Wir warten alle auf eine Antwort von dir, bitte.")
    assert not is_english(quoting + "Мы все ждём ответа от вас сегодня.")
    more = "Thanks to all of the team and to the {} desk for the help they gave us with it today."
    assert is_english(quoting + more.format("report"))
    assert not is_english(quoting + more.format("bonjour"))
    assert not is_english(
        f"The operator wrote: '{SENTENCE} {SENTENCE} {SENTENCE}' Please tell us today what that means."
    )


BLOCK_QUOTES = (
    "> Hola, no puedo entrar en mi cuenta desde ayer.\n\nCan someone who reads Spanish answer this customer today?",
    "The operator of the export job wrote this:\n\n> Der Server antwortet\n> seit gestern nicht mehr.\n\n"
    "I think it is the same fault as last week, when the disk of that machine was full. Who has time for it?",
    "Original post:\r\n> Сервер не отвечает\r\nPlease translate it for the whole team.",
)


@pytest.mark.parametrize("text", BLOCK_QUOTES)
def test_quoted_lines_are_quotations(text: str) -> None:
    assert is_english(text)
    assert not is_english(text.replace("> ", ""))


@pytest.mark.parametrize(
    "text",
    [
        "> Hola, no puedo entrar en mi cuenta.",
        "> Hola, no puedo entrar en mi cuenta.\n\n¿Alguien puede ayudar a este cliente, por favor?",
        "> The server is down and nobody knows why.\n\nAlguien tiene que mirar los archivos de la noche.",
        f"The operator wrote:\n\n> {SENTENCE}\n> {SENTENCE}\n> {SENTENCE}\n\nPlease tell us today what that means.",
        "They say:\n" + "> Hola amigos\n" * (MAX_OPENINGS + 1),
    ],
)
def test_quoted_lines_without_enough_english_around_them_fail(text: str) -> None:
    assert not is_english(text)


def test_quotations_of_a_text_full_of_quotation_marks_are_not_searched_for() -> None:
    assert not opens_few("„" * 31)
    assert not opens_few("none")
    assert opens_few("„" * 30)
    assert opens_few("「a」")


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


@pytest.mark.parametrize(
    ("text", "apart"),
    [
        ("> a\n>> b\nc", (" \n \nc", "> a >> b")),
        ("c\n   > a", ("c\n ", "   > a")),
        ("a > b\n    > code", ("a > b\n    > code", "")),
        ("none", ("none", "")),
        (">\n" * MAX_OPENINGS, (" \n" * MAX_OPENINGS, " ".join(">" * MAX_OPENINGS))),
        (">\n" * (MAX_OPENINGS + 1), (">\n" * (MAX_OPENINGS + 1), "")),
    ],
)
def test_quoted_lines_are_set_apart(text: str, apart: tuple[str, str]) -> None:
    assert without_quoted_lines(text) == apart


def test_names_of_languages_are_listed_in_the_case_in_which_they_are_looked_up() -> None:
    assert {name.casefold() for name in LANGUAGES} == LANGUAGES


@pytest.mark.parametrize(
    "names",
    [
        "Lionel Messi, Kylian Mbappé, Erling Haaland",
        "Rue de la Loi 200, 1049 Bruxelles, Belgium",
        "Eliud Kipchoge, Tamirat Tola, Bashir Abdi",
    ],
)
def test_names_and_addresses_pass_in_quotation_marks_as_the_documents_advise(names: str) -> None:
    assert not is_english(names)
    assert is_english(f'Please send the report to "{names}" before noon.')
