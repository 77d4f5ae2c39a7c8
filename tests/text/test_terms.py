"""The words of a text as search sees them."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.text import terms
from node.text.terms import (
    FEW_MARKS,
    MAX_QUERY_TERMS,
    MAX_TERM_CHARACTERS,
    QueryTerms,
    RememberedTerms,
    marks_of,
    terms_of,
)
from tests.support.words import words_of

TERM = re.compile(rf"[a-z0-9]{{1,{MAX_TERM_CHARACTERS}}}")


def test_forms_of_a_word_are_one_term() -> None:
    assert words_of("connect connected connecting connection Connections") == ["connect"] * 5


def test_words_that_every_text_has_are_left_out() -> None:
    assert words_of("What is the best way to do this? It isn't easy, we've heard.") == ["best", "way", "easi", "heard"]


def test_accents_and_typographic_variants_do_not_matter() -> None:
    assert words_of("Résumé naïve ﬁle ⑴") == words_of("resume naive file 1")


def test_words_of_other_scripts_are_terms_too() -> None:
    first, second = terms_of("Привет мир")
    assert first != second
    assert terms_of("мир, ПРИВЕТ!") == [second, first]


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("ERR_CONN_4471", "errconn4471"),
        ("os.path", "ospath"),
        ("std::vector", "stdvector"),
        ("Estimator::set_params", "setparams"),
        ("v2.10.5", "v2105"),
    ],
)
def test_an_identifier_is_found_by_its_parts_and_as_a_whole(text: str, whole: str) -> None:
    found = terms_of(f"it says {text}.")
    assert whole in found
    assert set(words_of(text)) <= set(found)


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("4.3.1", "v4.3.1"),
        ("v4.3.1", "4.3.1"),
        ("V4.3.1", "tool@v4.3.1"),
        ("tool@4.3.1", "tool v4.3.1"),
        ("tool-v4.3", "tool 4.3.1"),
        ("python 3.12", "python3.12.4"),
        ("python3.12", "Python 3.12"),
        ("10.0.0.1", "10.0.0.1:8080"),
        ("ERR-7731", "err7731"),
        ("CAMT.053", "camt053"),
        ("max_old_size", "maxOldSize"),
        ("maxOldSize", "max_old_size"),
        ("set_params", "estimator.set_params()"),
    ],
)
def test_an_identifier_is_found_however_it_is_written(asked: str, written: str) -> None:
    """For example, 4.3.1 must be found where v4.3.1 is written, and maxOldSize where max_old_size is."""
    assert QueryTerms(asked).share(marks_of(terms_of(f"since {written} it fails"))) == 1.0


@pytest.mark.parametrize(
    "text", ["2 tools, 10 users and 5 nodes", "2105 users", "the 2105th", "v2.11.0, then 2.1.5", "2.10.50"]
)
def test_a_version_is_not_contained_in_other_numbers(text: str) -> None:
    """Otherwise three of the four terms of 2.10.5 would be in nearly every long text, which is above the threshold."""
    assert QueryTerms("2.10.5").share(marks_of(terms_of(text))) == 0.0


@pytest.mark.parametrize(("asked", "share"), [("relay-kit 2.10.5", 2 / 3), ("relay@2.10.5", 1 / 2)])
def test_a_version_counts_as_one_word(asked: str, share: float) -> None:
    assert QueryTerms(asked).share(marks_of(terms_of("relay-kit 2.11.0 is out"))) == pytest.approx(share)


def test_the_parts_of_an_identifier_are_less_than_the_whole() -> None:
    assert QueryTerms("os.path").share(marks_of(terms_of("the path of an os"))) == pytest.approx(2 / 3)


def test_versions_of_documents_made_before_are_found() -> None:
    """Such documents have no term for a version that follows a v."""
    marks = marks_of(["tool", "v2", "10", "5", "v2105"])
    for asked in ("2.10.5", "v2.10.5", "tool v2.10.5"):
        assert QueryTerms(asked).share(marks) == 1.0


@pytest.mark.parametrize("identifier", ["parse_header", "x2header"])
def test_identifiers_that_differ_in_an_ending_are_different(identifier: str) -> None:
    assert terms_of(identifier)[-1] != terms_of(f"{identifier}s")[-1]


def test_a_hyphenated_word_is_two_words() -> None:
    assert terms_of("rate-limit") == QueryTerms("rate-limit").terms == ["rate", "limit"]


def test_each_word_and_each_identifier_is_one_term_in_its_place() -> None:
    text = "the rate-limit of parse_header in relay code"
    assert terms_of(text) == ["rate", "limit", "pars", "header", "parseheader", "relay", "code"]


@given(st.text())
def test_a_term_is_made_of_letters_and_digits_only(text: str) -> None:
    for term in [*terms_of(text), *words_of(text), *QueryTerms(text).terms, *QueryTerms(text).shown]:
        assert TERM.fullmatch(term), term


IDENTIFIERS = st.text(alphabet=st.sampled_from("aBvV129_.-@ "), max_size=40)


@given(st.text() | IDENTIFIERS, st.text() | IDENTIFIERS)
def test_a_text_contains_all_words_of_its_parts(before: str, after: str) -> None:
    marks = marks_of(terms_of(f"{before} {after}"))
    for part in (before, after):
        asked = QueryTerms(part)
        assert asked.share(marks) == (1.0 if asked.terms else 0.0)


def test_the_share_counts_distinct_words() -> None:
    marks = marks_of(terms_of("The upload stops after thirty seconds"))
    assert QueryTerms("upload upload upload seconds").share(marks) == 1.0
    assert QueryTerms("uploads stop at night").share(marks) == pytest.approx(2 / 3)
    assert QueryTerms("night upload").share(marks) == QueryTerms("night upload").least == 1 / 2
    assert QueryTerms("upload").share(marks) == QueryTerms("upload").least == 1
    assert QueryTerms("something else").share(marks) == 0.0


@pytest.mark.parametrize("query", ["what is this", "a.m"])
def test_a_query_of_stop_words_matches_no_text(query: str) -> None:
    assert QueryTerms(query).share(marks_of(terms_of(f"{query}?"))) == 0.0


def test_a_text_without_words_contains_nothing() -> None:
    assert QueryTerms("upload").share(marks_of(terms_of("..."))) == 0.0


def test_of_a_long_query_the_first_words_count() -> None:
    asked = QueryTerms(" ".join(f"word{n}x" for n in range(2000)))
    assert len(asked.terms) == MAX_QUERY_TERMS
    assert asked.terms[0] == "word0x"


@pytest.mark.parametrize("size", [FEW_MARKS - 1, FEW_MARKS, FEW_MARKS + 1, 1000])
def test_a_text_of_any_length_contains_its_words_and_no_others(size: int) -> None:
    marks = marks_of([f"word{number}" for number in range(size)])
    asked = QueryTerms(f"word0 absent word{size // 2} missing word{size - 1}")
    assert asked.share(marks) == pytest.approx(3 / 5)
    assert asked.share(marks, marks_of(terms_of("missing"))) == pytest.approx(4 / 5)
    assert not any(QueryTerms(f"absent{number}").share(marks) for number in range(1000))


@pytest.mark.parametrize(
    ("text", "term"), [("a" * 10_000, "a" * MAX_TERM_CHARACTERS), ("_".join(20 * ["part"]), "part")]
)
def test_a_very_long_word_is_cut_and_a_very_long_identifier_is_no_term(text: str, term: str) -> None:
    assert {*terms_of(text)} == {*QueryTerms(text).terms} == {term}


@given(st.text(alphabet=st.sampled_from("abXY09 _.:/#@+-\n\t'\"(),;\x00\x1c"), max_size=40))
def test_an_ascii_text_has_the_same_terms_with_a_dash_beside_it(text: str) -> None:
    assert terms_of(text) == terms_of(f"{text} — ")


def test_very_long_words_and_words_beyond_the_limit_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms, "REMEMBERED_WORDS", 3)
    remembered = RememberedTerms()
    assert [remembered[word] for word in ("tests", "Tables", "the", "a" * 65)] == ["test", "tabl", "", "a" * 64]
    assert remembered == {"tests": "test", "Tables": "tabl", "the": ""}
    assert remembered["words"] == "word"
    assert remembered == {"words": "word"}


@pytest.mark.parametrize("word", ["résumé", "naïve", "Ångström", "E_é4471"])
def test_an_accent_of_its_own_does_not_divide_a_word(word: str) -> None:
    """Otherwise "résumé" written on a Mac would be split into "re" and "sume", and would not be found."""
    divided = unicodedata.normalize("NFD", word)
    assert terms_of(divided) == terms_of(word)
    assert QueryTerms(divided).terms == QueryTerms(word).terms


def test_marks_in_any_number_are_put_in_order_in_little_time() -> None:
    """Swapping all pairs of two million marks would take far too long."""
    marks = "\u108d" * 1_000_000 + "\u1037" * 1_000_000
    assert terms_of(f"zebra{marks}crossing") == ["zebra", "cross"]
    assert QueryTerms(f"zebra{marks}crossing").terms == ["zebra", "cross"]


@pytest.mark.parametrize(
    "query", ["1.2 " * 2500, "".join(f"{n:09b} ".translate({48: "a", 49: "A"}) for n in range(1000))]
)
def test_an_identifier_that_a_query_repeats_is_looked_at_a_few_times(
    query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is always written alike, or with all combinations of upper and lower case."""
    asked = terms._asked  # pyright: ignore[reportPrivateUsage]
    looked: list[str] = []

    def counted(chunk: str) -> object:
        looked.append(chunk)
        return asked(chunk)

    monkeypatch.setattr(terms, "_asked", counted)
    assert len(QueryTerms(query[:10_000]).terms) <= MAX_QUERY_TERMS
    assert len(looked) <= terms.MAX_WHOLES
