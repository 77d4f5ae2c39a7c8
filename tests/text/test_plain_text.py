"""The shortcuts for texts of plain English words, and for documents of such texts, never change the verdict."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from node.common.counters import VERDICTS
from node.text import english, payload, word_evidence
from node.text.english import MAX_WHOLE_CHARACTERS, preload, verdict
from node.text.payload import MAX_MEMBERS, payload_is_english
from tests.support.effort import tries
from tests.text import languages

WORDS = [word for sentence in languages.ENGLISH for word in sentence.split()]
OTHERS = [word for sentences in languages.FOREIGN.values() for sentence in sentences for word in sentence.split()]
ODDITIES = [
    *("hola_x", "mundo_y", "como-estas", "max_size", "maxSize", "os.path", "E_4471", "hola2", "de", "fe", "da"),
    *("42", "3.5", "7.", "1,000", "->", "=", "%", "a", "I", "x", "DE", "MIT", "USA", "von", "et al.", "de facto"),
    *("https://a.b/hola", "//hola", "me@hola.es", "%(hola)s", "&amp;", "don't", "isn’t", "it's", "naïve", "日本"),
    *("ok\x00", "\x1b[31mred\x1b[0m", "ho\u200bla", "word\x7f", "x" * 30, "hello" * 5, ">", '"', "'hola'", "(hola)"),
]
SPACES = st.sampled_from([" ", " ", " ", "  ", "\n", "\t", "\x1c", "\r\n> "])


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    preload()


def never_plain(_: object) -> bool:
    return False


def slowly(text: str) -> bool:
    """Return the verdict without the shortcut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(english, "has_plain_words", never_plain)
        return verdict(text)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw mostly English texts, so that many are plain."""
    pieces = draw(st.lists(st.one_of(*[st.sampled_from(WORDS)] * 8, st.sampled_from(ODDITIES + OTHERS)), max_size=60))
    return "".join(f"{piece}{draw(SPACES)}" for piece in pieces)


@tries(400)
@given(text=texts(), forgets=st.booleans())
@example(text="hola_x mundo_y", forgets=True)
@example(text="hola-x mundo-y", forgets=False)
@example(text="42 -> 7", forgets=True)
def test_it_agrees_with_the_verdict_on_the_windows(text: str, *, forgets: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if forgets:
            remembered: dict[str, tuple[str, ...]] = {}
            patch.setattr(word_evidence, "ENGLISH_TOKENS", remembered)
            patch.setattr(english, "ENGLISH_TOKENS", remembered)
        assert verdict(text) == slowly(text)


@pytest.mark.parametrize("text", [*languages.ENGLISH, " ".join(languages.ENGLISH), "This is note 5001.", "ok"])
def test_plain_english_is_judged_by_it(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in text.split():
        verdict(text)  # each call remembers some of its words

    def never(_: object) -> bool:
        raise AssertionError(text)

    monkeypatch.setattr(english, "_window_passes", never)
    monkeypatch.setattr(english, "_windows_pass", never)
    assert len(text) <= MAX_WHOLE_CHARACTERS
    assert verdict(text)


@pytest.mark.parametrize("text", ["hola", "The café opens.", "one two\x00three", "hola_x mundo_y", "x" * 30])
def test_what_is_not_plain_is_looked_at(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def look(window: str) -> bool:
        looked.append(window)
        return True

    monkeypatch.setattr(english, "_window_passes", look)
    assert verdict(text)
    assert looked


KEYS = st.sampled_from(["message", "hello", "text", "title", "agent", "name", "user_id", "status", "kind", "two words"])


@st.composite
def documents(draw: st.DrawFn) -> dict[str, object]:
    """Draw mostly flat documents, with strings of all kinds."""
    label = st.sampled_from(["agent-0", "Otto von Bismarck", "hola", "[hola]", '{"id": "hola"}', "Bob", "018f3c1e"])
    plain = st.sampled_from([*languages.ENGLISH, "ready", "agent-0"])
    leaf = st.one_of(plain, plain, plain, texts(), label, st.none(), st.booleans(), st.integers())
    inner = st.recursive(leaf, lambda value: st.lists(value, max_size=3) | st.dictionaries(KEYS, value, max_size=3))
    return draw(st.dictionaries(KEYS, st.one_of(plain, texts(), label, inner), max_size=6))


@tries(400)
@given(documents())
@example({"message": "Please send the report.", "agent": "agent-0"})
@example({"status": "hola", "message": "Please send the report."})
@example({"agent": '{"message":"hola mundo"}'})
@example({"agent": r'["hola\u0020mundo\u0020como\u0020estas"]'})
@example({"como estas amigo": 1})
@example({"message": {"message": "hola amigo"}})
@example({"names": ["Otto von Bismarck", ["hola"]]})
@example({"steps": [{"title": "Please send the report.", "como estas": None}]})
def test_a_document_gets_the_verdict_that_it_would_get_string_by_string(document: dict[str, object]) -> None:
    quickly = payload_is_english(document)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(payload, "_is_plain", never_plain)
        assert payload_is_english(document) == quickly


def test_a_plain_document_is_judged_without_sorting_its_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    task = {"title": languages.ENGLISH[1], "names": ["Otto von Bismarck", "agent-1"], "due": None}
    document = {"message": languages.ENGLISH[0], "agent": "agent-0", "status": "ready", "count": 3, "tasks": [task]}
    for _ in range(10):
        payload_is_english(document)  # each call remembers some of its words

    def never() -> None:
        raise AssertionError

    monkeypatch.setattr(payload, "_Strings", never)
    assert payload_is_english(document)


def test_it_counts_the_texts_that_it_has_judged() -> None:
    document = {"message": "Hello, friend.", "text": "Good day.", "agent": "agent-0", "status": "ready", "mood": "good"}
    before = VERDICTS[True]
    assert payload_is_english(document)
    quickly = VERDICTS[True] - before
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(payload, "_is_plain", never_plain)
        assert payload_is_english(document)
    assert (quickly, VERDICTS[True] - before) == (3, 6)


@pytest.mark.parametrize(
    "document",
    [
        {"message": "word " * MAX_WHOLE_CHARACTERS},
        {f"note{number}": "word" for number in range(MAX_MEMBERS + 1)},
        {f"note{number}": "word " * 100 for number in range(MAX_MEMBERS)},
        {"notes": ["word"] * (MAX_MEMBERS + 1)},
        {"notes": [["word"] * MAX_MEMBERS]},
        {"notes": [["word " * 100] * (MAX_MEMBERS // 2)] * 2},
    ],
)
def test_of_a_large_document_only_a_part_is_looked_at(
    document: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []

    def look(text: str) -> bool:
        looked.append(text)
        return True

    monkeypatch.setattr(payload, "has_plain_words", look)
    assert payload_is_english(document)
    assert sum(map(len, looked)) <= MAX_WHOLE_CHARACTERS
    assert len(looked) <= MAX_MEMBERS
