"""How values are displayed on a page."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.site import filters
from node.site.filters import EXCERPT, age, ago, code, excerpt, fingerprint, marked, moment, prose, span, xml_text
from node.text.terms import stem

NOW = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("passed", "text"),
    [
        (timedelta(seconds=-5), "now"),
        (timedelta(seconds=59), "now"),
        (timedelta(minutes=1), "1 min"),
        (timedelta(minutes=59), "59 min"),
        (timedelta(hours=1), "1 h"),
        (timedelta(hours=23, minutes=59), "23 h"),
        (timedelta(days=29, hours=23, minutes=59, seconds=59), "29 d"),
        (timedelta(days=30), "22 Oct 2026"),
        (timedelta(days=40), "12 Oct 2026"),
    ],
)
def test_an_age_is_as_coarse_as_readers_need(passed: timedelta, text: str) -> None:
    assert age((NOW - passed).isoformat().replace("+00:00", "Z"), NOW) == text


@pytest.mark.parametrize(
    ("passed", "text"),
    [(timedelta(0), "just now"), (timedelta(hours=3), "3 h ago"), (timedelta(days=40), "12 Oct 2026")],
)
def test_an_age_stands_in_a_sentence(passed: timedelta, text: str) -> None:
    assert ago((NOW - passed).isoformat(), NOW) == text


def test_a_span_is_told_in_the_largest_even_unit() -> None:
    spans = {45: "45 s", 60: "1 min", 90: "90 s", 900: "15 min", 3600: "1 h", 5400: "90 min", 86400: "1 d"}
    assert {seconds: span(seconds) for seconds in spans} == spans


def test_a_moment_is_told_in_utc() -> None:
    assert moment("2026-11-21T08:05:00.123Z") == "21 Nov 2026, 08:05 UTC"


def test_an_excerpt_is_one_line_cut_between_words() -> None:
    assert excerpt("one\n\n  two\tthree") == "one two three"
    long = excerpt("word " * 100)
    assert long.endswith("word…")
    assert len(long) <= EXCERPT + 1
    assert len(excerpt("x" * 1000)) == EXCERPT + 1


def test_the_words_of_a_query_are_marked_in_any_form() -> None:
    assert marked("Parsing files: the reader parses a file.", "parse file") == (
        "<mark>Parsing</mark> <mark>files</mark>: the reader <mark>parses</mark> a <mark>file</mark>."
    )
    assert marked("the cat", "the") == "the cat"


def test_the_words_of_a_query_are_looked_at_once_for_all_texts_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    stemmed: Counter[str] = Counter()

    def counted(word: str) -> str:
        stemmed[word] += 1
        return stem(word)

    monkeypatch.setattr(filters, "stem", counted)
    for number in range(100):
        assert "<mark>" in marked(f"Parsing number {number}", "parse many long files " * 100)
    assert stemmed["files"] == 1


@given(st.text(), st.text())
def test_marking_escapes_everything_else(text: str, query: str) -> None:
    shown = str(marked(text, query)).replace("<mark>", "").replace("</mark>", "")
    assert not set("<>\"'") & set(shown)


def test_a_fingerprint_is_the_thumbprint_of_the_key() -> None:
    key = {"key": "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}  # RFC 9421 B.1.4
    assert fingerprint(key) == "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"
    assert fingerprint({}) == "unreadable"
    assert fingerprint({"key": "<script>"}) == "unreadable"


def test_xml_gets_only_characters_that_it_allows() -> None:
    assert xml_text("a\x00\x08\x1f\ufffe\uffff\tb\n\U0001f600") == "a\tb\n\U0001f600"


def test_code_of_ours_keeps_its_quotes() -> None:
    assert code("'<a>' & \"b\"") == "'&lt;a&gt;' &amp; \"b\""


def test_what_prose_quotes_is_code() -> None:
    assert prose("`a<b` & `c`, 5`") == "<code>a&lt;b</code> &amp; <code>c</code>, 5`"
