"""How a thread is cut into passages, and a snippet out of a text."""

import re

from hypothesis import given
from hypothesis import strategies as st

from node.board import passage
from node.board.passage import Passage, passages_of, pieces, place_of
from node.board.snippet import LENGTH, Excerpt
from node.text.terms import QueryTerms, words_of

WORDS = st.lists(st.from_regex(r"[a-z]{1,9}[.,!]?", fullmatch=True), max_size=200).map(" ".join)
ANY_TEXT = st.one_of(st.text(), WORDS)


def shown(text: str, query: str, most: int = 10**6) -> str:
    return best([text], query, most)


def best(texts: list[str], query: str, most: int = 10**6) -> str:
    excerpt = Excerpt(QueryTerms(query).terms)
    for text in texts:
        if not excerpt.complete:
            sum(excerpt.look(text, most))
    return excerpt.text


def test_a_short_thread_is_one_passage_that_begins_with_the_title() -> None:
    assert passages_of("A title", "A body.", []) == [Passage("0.0", "A title\nA body.")]


def test_replies_are_passages_of_their_own_newest_first() -> None:
    found = passages_of("A title", "A body.", [(1, "Yes."), (2, "No.")])
    assert found[1:] == [Passage("2.0", "No."), Passage("1.0", "Yes.")]


def test_of_many_replies_the_newest_are_kept() -> None:
    found = passages_of("A title", "A body.", [(seq, "Yes.") for seq in range(1, 500)])
    assert len(found) == passage.MOST
    assert place_of(found[1].name) == (499, 0)


def test_a_passage_ends_where_a_sentence_does() -> None:
    text = "A sentence of middling length about nothing at all. " * 60
    for piece in pieces(text):
        assert piece.endswith(".")
        assert len(piece) > passage.LENGTH / 2


@given(ANY_TEXT)
def test_nothing_is_lost_in_cutting(text: str) -> None:
    found = pieces(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(0 < len(piece) <= passage.LENGTH for piece in found)


@given(ANY_TEXT, st.lists(st.tuples(st.integers(1, 99), ANY_TEXT), max_size=5))
def test_a_passage_is_found_again_by_its_name(body: str, replies: list[tuple[int, str]]) -> None:
    texts = {0: body} | dict(replies)
    for name, text in passages_of("A title", body, sorted(texts.items())[1:]):
        seq, number = place_of(name)
        if name != "0.0":
            assert pieces(texts[seq])[number] == text


def test_a_text_that_fits_is_shown_whole() -> None:
    assert shown("  All of\nthis is shown. ", "shown") == "All of this is shown."


def test_a_snippet_holds_the_words_that_were_asked_for() -> None:
    filler = "Nothing of interest is said here. " * 30
    text = f"{filler}The registry refused the connection. {filler}"
    found = shown(text, "registry connections")
    assert "The registry refused the connection." in found
    assert found.startswith("…")
    assert found.endswith("…")


def test_a_snippet_begins_with_the_sentence_if_it_can() -> None:
    filler = "Nothing of interest is said here. " * 30
    found = shown(f"{filler}In the log of the node stands E4471. {filler}", "E4471")
    assert re.match(r"…[A-Z]", found)


def test_of_several_texts_the_one_with_most_words_is_shown() -> None:
    texts = ["Bread and butter.", "Bread, butter and jam.", "Jam and bread."]
    assert best(texts, "bread butter jam") == texts[1]


def test_a_snippet_without_any_of_the_words_is_the_beginning() -> None:
    text = "A beginning. " + "And it goes on. " * 40
    assert shown(text, "zebra").startswith("A beginning. And it goes on.")


@given(ANY_TEXT, ANY_TEXT)
def test_a_snippet_is_short_and_of_whole_words(text: str, query: str) -> None:
    found = shown(text, query)
    assert len(found) <= LENGTH
    tokens = text.split()
    if all(len(token) < LENGTH / 2 for token in tokens):
        inner = found.removeprefix("…") if found[:1] == "…" != text.strip()[:1] else found
        inner = inner.removesuffix("…") if found[-1:] == "…" != text.strip()[-1:] else inner
        assert inner in " ".join(tokens)
        assert f" {inner} " in f" {' '.join(tokens)} "


@given(WORDS, st.integers(0, 199))
def test_a_word_of_the_text_is_in_its_snippet(text: str, place: int) -> None:
    words = words_of(text)
    if words:
        word = words[place % len(words)]
        assert word in words_of(shown(text, word)) or word not in QueryTerms(word).terms
