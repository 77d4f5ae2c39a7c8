"""Foreign text hidden in a long English one is found, wherever it stands."""

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import cycle
from random import Random

import pytest

from node.text import sampling
from node.text.english import is_english
from tests.support.node_under_test import NodeUnderTest
from tests.text.languages import ENGLISH, FOREIGN, SCRIPTS, english, foreign

LENGTH = 20_000
"""Number of characters that a thread shows of a text."""


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fix the secret, so that samples are taken at the same places in every run."""
    monkeypatch.setattr(sampling, "_KEY", bytearray(32))
    sampling.use_secret("the secret of these tests")


def in_one_piece(language: str, share: float, size: int, choice: Random) -> str:
    hidden = foreign(language, round(share * size), choice)
    around = english(size - len(hidden), choice)
    place = choice.randrange(len(around))
    return f"{around[:place]} {hidden} {around[place:]}"


def in_paragraphs(language: str, share: float, size: int, choice: Random) -> str:
    paragraphs: list[str] = []
    while size > 0:
        hidden = foreign(language, choice.randrange(300, 900), choice)
        around = english(round(len(hidden) * (1 - share) / share), choice)
        paragraphs += [around, hidden]
        size -= len(around) + len(hidden)
    return "\n\n".join(paragraphs)


def sentence_by_sentence(language: str, share: float, size: int, choice: Random) -> str:
    said: list[str] = []
    hidden = total = 0
    while total < size:
        is_hidden = hidden < share * total and choice.random() < 0.7
        sentence = choice.choice(FOREIGN[language] if is_hidden else ENGLISH)
        said.append(sentence)
        total += len(sentence)
        hidden += len(sentence) * is_hidden
    return " ".join(said)


ARRANGEMENTS = (in_one_piece, in_paragraphs, sentence_by_sentence)


def texts(share: float, count: int) -> Iterator[str]:
    """Yield texts of which `share` is in one of the other languages, in every arrangement."""
    choice = Random(f"texts of {share}")
    languages = cycle(FOREIGN)
    for place in range(count):
        size = choice.choice((2_500, 6_000, LENGTH))
        yield ARRANGEMENTS[place % len(ARRANGEMENTS)](next(languages), share, size, choice)


def test_half_a_text_does_not_stay_hidden_once_in_a_thousand_times() -> None:
    assert not any(map(is_english, texts(0.5, 2_000)))


def test_a_fifth_of_a_text_is_found_in_95_of_100() -> None:
    found = sum(not is_english(text) for text in texts(0.2, 2_000))
    assert found > 0.95 * 2_000


def test_english_by_itself_passes() -> None:
    choice = Random("english")
    assert all(is_english(english(choice.choice((2_500, 6_000, LENGTH)), choice)) for _ in range(300))


@pytest.mark.parametrize("unseen", ["\u200b", "\u00ad", "\ufe0f", "\u2060"], ids=ascii)
@pytest.mark.parametrize("size", [150, 800, 6_000], ids=["one window", "several windows", "samples"])
def test_what_nobody_sees_within_words_hides_no_language(size: int, unseen: str) -> None:
    choice = Random("unseen")
    for language in ("German", "Spanish", "Swahili"):
        assert not is_english(unseen.join(foreign(language, size, choice)[:size]))
    assert is_english(unseen.join(english(size, choice)[:size]))


@pytest.mark.parametrize("unseen", ["\u200b\ufe0f" * 5, "\x1b[0m", "\u00ad" * 40], ids=["signs", "codes", "hyphens"])
def test_however_many_there_are(unseen: str) -> None:
    """Otherwise a sample of a long text could have too few letters to tell anything."""
    choice = Random("unseen")
    for language in FOREIGN:
        assert not is_english(unseen.join(foreign(language, 800, choice)[:800]))
    assert is_english(unseen.join(english(800, choice)[:800]))


@pytest.mark.parametrize(
    "unseen", ["\u00ad" * 1_600, "\U000e0041" * 800, "\x1b[0m" * 400], ids=["hyphens", "tags", "codes"]
)
def test_of_what_is_hardly_to_be_seen_nothing_passes(unseen: str) -> None:
    """Otherwise no sample would have enough letters to tell that these are Spanish."""
    choice = Random("unseen")
    for language in FOREIGN:
        assert not is_english(unseen.join(foreign(language, 400, choice)[:400]))
    assert not is_english(english(4_000, choice) + unseen * 20)
    assert is_english(english(4_000, choice) + "\n" * 20_000 + english(4_000, choice))


def between_known_windows(hidden: str) -> str:
    """Return English at twelve evenly spaced windows of 160 characters, and the hidden text everywhere else."""
    text = [*(hidden * LENGTH)[:LENGTH]]
    for place in range(12):
        start = place * (LENGTH - 160) // 11
        text[start : start + 160] = english(160, Random(place))[:160]
    return "".join(text)


@pytest.mark.parametrize("hidden", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_another_script_is_seen_between_windows_of_english(hidden: str) -> None:
    """If samples were taken at places known to everybody, 17,000 Chinese characters could stand between twelve
    stretches of English.
    """
    assert not is_english(between_known_windows(hidden))


@pytest.mark.parametrize("language", FOREIGN)
def test_another_language_is_seen_between_windows_of_english(language: str) -> None:
    assert not is_english(between_known_windows(foreign(language, LENGTH, Random(language))))


@pytest.mark.parametrize("hidden", SCRIPTS.values(), ids=SCRIPTS.keys())
@pytest.mark.parametrize("secret", ["one", "two", "three"])
def test_a_fifth_in_another_script_is_seen_wherever_samples_are_taken(hidden: str, secret: str) -> None:
    sampling.use_secret(secret)
    around = english(8_000, Random(1))
    for place in (0, 4_000, len(around)):
        assert not is_english(around[:place] + (hidden * 200)[:2_000] + around[place:])


def test_what_a_long_english_text_may_hold_of_other_scripts_and_languages() -> None:
    around = english(3_000, Random(2))
    for held in (
        "He wrote “Сервер снова работает и все агенты получили сообщение” and left. ",
        "The name of the country is 日本, its capital is 東京, and the word for water is 水. ",
        "She signed as Иван Петров (Москва), with Ελένη Παπαδοπούλου and 王小明 as witnesses. ",
        "The German error was 'Der Server antwortet nicht mehr, bitte versuchen Sie es später'. ",
        "For α = 0.05 and β = 0.2 the bound ∑ λᵢ·Δxᵢ ≤ π/√2 holds, Δt being 3 μs. " * 12,
        "Done 🎉🚀 ❤\ufe0f 👩\u200d💻 " * 30,
        "╭──────╮ ▲ ● ■ → ← ≥ ≠ ∞ " * 30,
    ):
        assert is_english(around + held + around), held


@pytest.mark.parametrize(("word", "passes"), [("", True), ("и ", True), ("друг ", False)])
def test_words_of_another_script_all_over_a_long_text_are_counted_in_all_of_it(word: str, *, passes: bool) -> None:
    """No single sample of such a text has too many of them."""
    assert is_english(f"Our relay took a message {word}and told the fleet {word}of it before noon. " * 60) is passes


def test_no_place_is_out_of_reach() -> None:
    """The first and the last words of a text are as likely to be sampled as any others."""
    text = "".join(f"{number:<10}" for number in range(1_000))
    seen: dict[str, int] = dict.fromkeys(text.split(), 0)
    for key in range(200):
        sampling.use_secret(f"key {key}")
        for sample in filter(None, sampling.samples_of(text, text, sampling.SAMPLES)):
            for number in {*sample.split()} & seen.keys():
                seen[number] += 1
    assert min(seen.values()) > 200 * sampling.SAMPLES * sampling.SAMPLE_CHARACTERS / len(text) / 2


def test_samples_of_texts_that_differ_by_a_letter_are_elsewhere() -> None:
    text = english(LENGTH, Random(3))
    changed = text.replace("relay", "Relay", 1)
    places = [[*map(each.find, filter(None, sampling.samples_of(each, each, 48)))] for each in (text, changed)]
    assert sum(first == second for first, second in zip(*places, strict=True)) < 5


def test_a_secret_decides_where_samples_are() -> None:
    text = english(LENGTH, Random(4))
    taken: list[list[str | None]] = []
    for secret in ("one", "another", "one"):
        sampling.use_secret(secret)
        taken.append([*sampling.samples_of(text, text, 48)])
    assert taken[0] == taken[2] != taken[1]


async def test_a_node_draws_them_under_its_secret(node: NodeUnderTest) -> None:
    text = english(LENGTH, Random(5))
    taken = [*sampling.samples_of(text, text, 48)]
    sampling.use_secret(node.settings.secret)
    assert taken == [*sampling.samples_of(text, text, 48)]


def test_processes_of_one_secret_take_the_same_samples() -> None:
    program = (
        "from node.text import sampling\n"
        "sampling.use_secret({secret!r})\n"
        "text = 'The relay took the message. ' * 999\n"
        "print(*(text.find(sample) for sample in sampling.samples_of(text, text, 48)))\n"
    )

    def run(secret: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", program.format(secret=secret)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert run("shared") == run("shared")
    assert run("") != run("")  # without a secret, nobody can know the places either
