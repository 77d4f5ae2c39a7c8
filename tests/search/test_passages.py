"""How a thread is cut into passages, and how a snippet is cut out of a text."""

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.search import passages
from node.search.passages import MAX_PASSAGES, Passage, kept, of_own, of_reply, pieces, seq_and_piece
from node.search.snippets import SNIPPET_CHARACTERS, Excerpt, WantedTerms
from node.text.terms import QueryTerms, stem
from tests.support.words import words_of

WORDS = st.lists(st.from_regex(r"[a-z]{1,9}[.,!]?", fullmatch=True), max_size=200).map(" ".join)
ANY_TEXT = st.one_of(st.text(), WORDS)
FILLER = "Nothing of interest is said here. " * 300
ROOM = SNIPPET_CHARACTERS - 2  # characters of a snippet that come from the text


def shown(text: str, query: str, most: int = 10**6) -> str:
    return best([text], query, most)


def best(texts: list[str], query: str, most: int = 10**6) -> str:
    excerpt = Excerpt(WantedTerms(QueryTerms(query).shown))
    for text in texts:
        if not excerpt.complete:
            sum(excerpt.look(text, most))
    return excerpt.text


def test_a_short_thread_is_one_passage_that_begins_with_the_title() -> None:
    assert of_own("A title", "A body.") == [Passage("0.0", "A title\nA body.")]
    assert of_own("A title", "") == [Passage("0.0", "A title\n")]


def test_a_reply_is_passages_of_its_own() -> None:
    assert of_reply(2, "No.") == [Passage("2.0", "No.")]


def test_of_many_replies_the_newest_are_kept() -> None:
    found = kept(f"{seq}.0" for seq in range(500))
    assert found == {"0.0", *(f"{seq}.0" for seq in range(500 - MAX_PASSAGES + 1, 500))}


def test_a_reply_is_kept_whole_or_not_at_all_and_no_older_one_in_its_place() -> None:
    long = [f"{seq}.{n}" for seq in (2, 3) for n in range(MAX_PASSAGES // 2)]
    assert kept(["0.0", "1.0", *long, "4.0"]) == {"0.0", "4.0", *(f"3.{n}" for n in range(MAX_PASSAGES // 2))}


def test_a_passage_ends_where_a_sentence_does() -> None:
    text = "A sentence of middling length about nothing at all. " * 60
    for piece in pieces(text):
        assert piece.endswith(".")
        assert len(piece) > passages.PASSAGE_CHARACTERS / 2


@given(ANY_TEXT)
def test_a_short_text_is_one_piece_whether_more_comes_behind_it_or_not(text: str) -> None:
    text, more = text[: passages.PASSAGE_CHARACTERS], "x" * passages.PASSAGE_CHARACTERS
    assert [*pieces(f"{text}\n{more}")] == [*pieces(text), more]


@given(ANY_TEXT)
def test_nothing_is_lost_in_cutting(text: str) -> None:
    found = [*pieces(text)]
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(0 < len(piece) <= passages.PASSAGE_CHARACTERS for piece in found)


@given(ANY_TEXT)
def test_a_passage_is_found_again_by_its_name(body: str) -> None:
    for name, text in [*of_own("A title", body)[1:], *of_reply(7, body)]:
        seq, number = seq_and_piece(name)
        assert seq in (0, 7)
        assert [*pieces(body)][number] == text


@given(
    WORDS,
    st.lists(st.integers(0, 12), max_size=12).map(lambda sizes: [f"{'w' * 650}. " * size for size in sizes]),
    st.randoms(),
)
def test_replies_that_come_one_by_one_leave_the_passages_of_the_whole_thread(
    body: str, replies: list[str], random: Random
) -> None:
    """Each reply is placed by the names of the existing passages, without reading them."""
    numbered = list(enumerate(replies, 1))
    posts = [of_own("A title", body), *(of_reply(seq, text) for seq, text in numbered)]
    whole = newest_that_fit(posts)
    assert added(posts) == whole
    random.shuffle(posts)
    assert whole <= added(posts), "whatever came before whatever else"
    assert len(added(posts)) <= passages.MAX_PASSAGES


def newest_that_fit(posts: list[list[Passage]]) -> set[str]:
    """Return the names of a thread's passages: those of its own text, then those of the newest whole replies
    that fit.
    """
    own, *replies = posts
    names = [found.name for found in own]
    for reply in reversed(replies):
        if len(names) + len(reply) > MAX_PASSAGES:
            break
        names += [found.name for found in reply]
    return set(names[:MAX_PASSAGES])


def added(posts: list[list[Passage]]) -> set[str]:
    """Return the names that are left after the posts were added one by one."""
    names: set[str] = set()
    for post in posts:
        names = kept({*names, *(found.name for found in post)})
    return names


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


@pytest.mark.parametrize("place", [0, 3, 40, 60, 96, 99])
def test_a_snippet_of_a_long_text_is_full_and_shows_more_of_what_follows(place: int) -> None:
    words = ["filler"] * 100
    words[place] = "zebra"
    found = shown(" ".join(words), "zebra")
    text = found.strip("…")
    assert ROOM - len(" filler") < len(text) <= ROOM
    assert found.startswith("…") == (place > 3)
    assert found.endswith("…") == (place < 96)
    if place < 96:
        assert text.index("zebra") <= ROOM / 3


def test_words_that_stand_too_far_apart_for_one_snippet_do_not_count_together() -> None:
    text = f"bread {'filler ' * 50}butter toast {'filler ' * 50}jam"
    assert {"butter", "toast"}.issubset(words_of(shown(text, "bread butter jam toast")))


@given(st.lists(st.sampled_from(["bread", "butter.", "Jam,", "toast", "x" * 300, "\n\n", "é"]), max_size=400), WORDS)
def test_a_stretch_is_the_best_of_all_that_there_are(text: list[str], _: str) -> None:
    """The result does not depend on how the text is cut into pieces."""
    line = " ".join(" ".join(text).split())
    wanted = {"bread", "butter", "jam"}
    places = [(match.start(), match.end(), stem(match[0])) for match in re.finditer(r"[a-zA-Z]+", line)]
    most = max(
        (
            len({term for begin, end, term in places if term in wanted and start <= begin and end <= start + ROOM})
            for start, _, term in places
            if term in wanted
        ),
        default=0,
    )
    assert len(wanted.intersection(words_of(shown(line, "bread butter jam")))) >= most


@pytest.mark.parametrize("word", ["connections", "easily", "hoping", "dying", "skies", "Résumé", "42", "AI", "a1b2c3"])
def test_a_word_is_found_in_every_form_that_it_has(word: str) -> None:
    text = f"{FILLER}Look for {word} here. {FILLER}"
    assert word in shown(text, word)
    assert word.upper() in shown(text.upper(), word)


def test_of_a_long_text_no_more_is_looked_at_than_may_be() -> None:
    assert "E4471" in shown(f"{FILLER}E4471. {FILLER}", "E4471", most=len(FILLER) + 200)
    assert "E4471" not in shown(f"{FILLER}E4471. {FILLER}", "E4471", most=len(FILLER) - 200)


@given(ANY_TEXT, ANY_TEXT)
def test_a_snippet_is_short_and_of_whole_words(text: str, query: str) -> None:
    found = shown(text, query)
    assert len(found) <= SNIPPET_CHARACTERS
    tokens = text.split()
    if all(len(token) < SNIPPET_CHARACTERS / 2 for token in tokens):
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


@given(WORDS, st.sampled_from(["run", "a sun", "running tests", "b c", "die tie"]))
def test_a_text_is_cut_alike_with_and_without_a_letter_beyond_ascii(text: str, query: str) -> None:
    text = f"Running dies as ties do. {text} Tested suns run."
    assert shown(f"{text} z", query) == shown(f"{text} é", query).replace("é", "z")
