"""The meaning of a score, and the order of hits (DESIGN 9)."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.search.ranking import (
    CANDIDATES,
    REPLY_CANDIDATES,
    Candidate,
    MissingFacts,
    NearEntity,
    Nearness,
    RankedEntity,
    Ranking,
    SearchRequest,
    TextMatches,
    by_text,
    meaning_of,
)

SCORES = st.floats(0, 1)
THREADS = st.sampled_from("abcdefgh")
LISTS = st.lists(st.tuples(THREADS, SCORES), unique_by=lambda entry: entry[0])


def rank(
    by_meaning: list[tuple[str, float]],
    by_text: list[tuple[str, float]],
    threshold: float = 0.7,
    limit: int = 5,
    others: Nearness | None = None,
    without_vectors: Sequence[str] = (),
) -> list[RankedEntity]:
    nearest = [NearEntity(meaning, thread, "0.0") for thread, meaning in by_meaning]
    ranking = Ranking(nearest, own_texts(*dict(by_text)), dict(by_text))
    return ranking.best(SearchRequest("", limit, threshold), others or {}, without_vectors)


def own_texts(*threads: str, whole: bool = True) -> TextMatches:
    """Return matches of threads that were found by their own text."""
    return TextMatches(dict.fromkeys(threads, 0), {}, whole)


@pytest.mark.parametrize(("cosine", "meaning"), [(1, 1), (0, 0.5), (-1, 0), (0.4, 0.7), (1.0000001, 1)])
def test_meaning_is_the_cosine_brought_to_0_to_1(cosine: float, meaning: float) -> None:
    assert meaning_of(cosine) == pytest.approx(meaning)


def test_the_score_is_the_better_of_the_two() -> None:
    scores = {match.entity_id: match.score for match in rank([("a", 0.9), ("b", 0.75)], [("b", 1.0), ("a", 0.5)])}
    assert scores == {"a": 0.9, "b": 1.0}


def test_a_hit_says_which_score_reaches_the_threshold() -> None:
    modes = {match.entity_id: match.mode for match in rank([("a", 0.9), ("b", 0.8), ("c", 0.6)], [("b", 1), ("c", 1)])}
    assert modes == {"a": "meaning", "b": "both", "c": "text"}


def test_the_threshold_is_reached_by_what_equals_it() -> None:
    assert rank([("a", 0.7)], [])
    assert not rank([("a", 0.699)], [])


def test_a_thread_first_in_both_lists_comes_first() -> None:
    found = rank([("b", 0.9), ("a", 0.8)], [("b", 1.0), ("c", 1.0)])
    assert found[0].entity_id == "b"


def test_an_identifier_that_only_one_thread_has_beats_a_vague_likeness() -> None:
    found = rank([("like", 0.72), ("alike", 0.71)], [("exact", 1.0)])
    assert found[0].entity_id == "exact"


def test_a_paraphrase_beats_a_thread_that_happens_to_share_a_word() -> None:
    found = rank([("paraphrase", 0.85), ("other", 0.6)], [("other", 0.25)], threshold=0)
    assert found[0].entity_id == "paraphrase"


def test_of_equals_the_newer_comes_first() -> None:
    assert [match.entity_id for match in rank([("01", 1.0)], [("02", 1.0)])] == ["02", "01"]
    assert [match.entity_id for match in rank([("02", 1.0)], [("01", 1.0)])] == ["02", "01"]


def test_a_thread_that_has_no_vectors_yet_is_judged_by_its_text_alone() -> None:
    """Such a thread cannot be found by meaning, however well it fits. A thread that has vectors can, but may be too far
    away.
    """
    by_meaning, by_text = [("both", 0.85), ("vague", 0.8)], [("new", 1.0), ("both", 0.75)]
    found = rank(by_meaning, by_text, without_vectors=["new"])
    assert [match.entity_id for match in found] == ["new", "both", "vague"]
    far = {"new": NearEntity(0.5, "new", "0.0")}
    assert [match.entity_id for match in rank(by_meaning, by_text, others=far)] == ["both", "new", "vague"]


@pytest.mark.parametrize(
    ("own", "replies", "whole"),
    [(CANDIDATES - 1, 0, True), (CANDIDATES, 0, False), (0, REPLY_CANDIDATES - 1, True), (0, REPLY_CANDIDATES, False)],
)
def test_a_full_list_does_not_say_that_no_other_thread_contains_anything(own: int, replies: int, whole: bool) -> None:
    found = by_text(
        [Candidate(1.0, f"{number:03}", 0) for number in range(own)],
        [Candidate(2.0, "replied", number) for number in range(1, replies + 1)],
    )
    assert found.whole == whole
    assert found.replies == ({"replied": replies} if replies else {})


def test_two_lists_that_fill_one_together_do_not_say_so_either() -> None:
    own, replies = ([Candidate(1.0, f"{kind}{number}", kind) for number in range(CANDIDATES // 2)] for kind in (0, 1))
    assert by_text(own, replies[1:]).whole
    assert not by_text(own, replies).whole


def test_a_thread_on_a_full_list_keeps_the_reply_that_fits_best() -> None:
    own = [Candidate(1.0 + number, f"{number:03}", 0) for number in range(CANDIDATES)]
    found = by_text(own, [Candidate(0.5, each, seq) for each, seq in (("000", 7), ("000", 3), ("other", 1))])
    assert list(found.entities) == [each.entity_id for each in reversed(own)]
    assert (found.replies, found.whole) == ({"000": 7}, False)


def test_a_thread_found_by_meaning_alone_is_scored_by_its_text_too_once_that_is_known() -> None:
    ranking = Ranking([NearEntity(0.75, "a", "0.0")], own_texts("b", whole=False), {"b": 0.1})
    ranking.contain({"a": 0.9})
    assert ranking.best(SearchRequest("", 5, 0.7), {}, ()) == [RankedEntity("a", 0.9, "both", "0.0")]


def test_a_thread_found_by_text_alone_is_scored_by_its_meaning_too_once_that_is_known() -> None:
    ranking = Ranking([], own_texts("a"), {"a": 0.75})
    found = ranking.best(SearchRequest("", 5, 0.7), {"a": NearEntity(0.9, "a", "3.1")}, ())
    assert found == [RankedEntity("a", 0.9, "both", "3.1")]


def test_it_is_not_asked_whether_a_reply_has_vectors_whose_passage_is_the_nearest() -> None:
    nearest = [NearEntity(0.8, "same", "7.0"), NearEntity(0.8, "another", "6.0")]
    ranking = Ranking(nearest, TextMatches({"same": 7, "another": 7}, {}, True), {"same": 1.0, "another": 1.0})
    assert ranking.missing(SearchRequest("", 5, 0.5)) == MissingFacts([], {"another": 7})


@pytest.mark.parametrize("near", [[], [NearEntity(0.5, "replied", "0.0")]], ids=["far", "near"])
def test_a_reply_that_has_no_vectors_yet_is_judged_by_its_text_alone(near: list[NearEntity]) -> None:
    """The thread may be found by meaning, but not by the meaning of this reply."""
    nearest = [NearEntity(0.85, "both", "0.0"), *near]
    text = TextMatches({"replied": 7, "both": 0}, {"replied": 7}, True)
    ranking, request = Ranking(nearest, text, {"replied": 1.0, "both": 0.75}), SearchRequest("", 5, 0.5)
    assert ranking.missing(request) == MissingFacts([] if near else ["replied"], {"replied": 7})
    assert [match.entity_id for match in ranking.best(request, {}, ["replied"])] == ["replied", "both"]
    assert [match.entity_id for match in ranking.best(request, {}, [])] == ["both", "replied"]


def test_it_is_asked_what_would_be_among_the_best_if_it_had_no_vectors() -> None:
    nearest = [NearEntity(0.85, "both", "0.0"), NearEntity(0.8, "vague", "0.0")]
    ranking = Ranking(nearest, own_texts("new", "both", "far"), {"new": 1.0, "both": 0.75, "far": 0.5})
    assert ranking.missing(SearchRequest("", 1, 0.7)) == MissingFacts(["new"], {})
    assert ranking.missing(SearchRequest("", 4, 0.7)) == MissingFacts(["new", "far"], {})


def test_a_thread_without_vectors_that_contains_little_stays_behind_a_paraphrase() -> None:
    found = rank([("paraphrase", 0.85)], [("new", 0.4)], threshold=0, without_vectors=["new"])
    assert found[0].entity_id == "paraphrase"


@given(LISTS, LISTS, SCORES, st.integers(1, 8))
def test_hits_are_distinct_reach_the_threshold_and_are_as_many_as_asked_for(
    by_meaning: list[tuple[str, float]], by_text: list[tuple[str, float]], threshold: float, limit: int
) -> None:
    found = rank(by_meaning, by_text, threshold, limit)
    meanings, shares = dict(by_meaning), dict(by_text)
    best = {t: max(meanings.get(t, 0), shares.get(t, 0)) for t in meanings | shares}
    assert len({match.entity_id for match in found}) == len(found)
    assert len(found) == min(limit, sum(score >= threshold for score in best.values()))
    for match in found:
        assert match.score == pytest.approx(best[match.entity_id], abs=1e-6)


@given(LISTS, LISTS, st.dictionaries(THREADS, SCORES), st.sets(THREADS), st.sets(THREADS), SCORES, st.integers(1, 8))
def test_of_others_it_is_asked_only_what_may_change_the_best(
    by_meaning: list[tuple[str, float]],
    by_text: list[tuple[str, float]],
    others: dict[str, float],
    replied: set[str],
    bare: set[str],
    threshold: float,
    limit: int,
) -> None:
    """`others` says how near other threads are; the posts by which the `bare` threads were found have no vectors."""
    nearest = {thread: NearEntity(meaning, thread, "0.0") for thread, meaning in by_meaning}
    posts = {thread: int(thread in replied) for thread, _ in by_text}
    ranking = Ranking(list(nearest.values()), TextMatches(posts, {}, True), dict(by_text))
    request = SearchRequest("", limit, threshold)
    far = {each: NearEntity(others[each], each, "1.0") for each in posts if each in others and each not in nearest}
    without_vectors = [each for each in posts if each in bare and (each in replied or each not in nearest)]
    nearness, asked = ranking.missing(request)
    assert nearest.keys().isdisjoint(nearness)
    found = ranking.best(
        request,
        {each: near for each, near in far.items() if each in nearness},
        [each for each in without_vectors if each in nearness or each in asked],
    )
    assert found == ranking.best(request, far, without_vectors)


@given(LISTS, LISTS, st.dictionaries(THREADS, SCORES), SCORES, st.integers(1, 8))
def test_how_much_others_contain_is_asked_of_those_only_that_may_be_among_the_best(
    by_meaning: list[tuple[str, float]],
    by_text: list[tuple[str, float]],
    contained: dict[str, float],
    threshold: float,
    limit: int,
) -> None:
    nearest = [NearEntity(meaning, thread, "0.0") for thread, meaning in by_meaning]
    text, request = own_texts(*dict(by_text), whole=False), SearchRequest("", limit, threshold)
    asked, all_known = (Ranking(nearest, text, dict(by_text)) for _ in range(2))
    unshared = asked.unshared(request)
    found_by_meaning_alone = dict(by_meaning).keys() - dict(by_text).keys()
    assert found_by_meaning_alone.issuperset(unshared)
    asked.contain({thread: contained[thread] for thread in unshared if thread in contained})
    all_known.contain({thread: contained[thread] for thread in found_by_meaning_alone if thread in contained})
    assert asked.missing(request) == all_known.missing(request)
    assert asked.best(request, {}, ()) == all_known.best(request, {}, ())


def test_nothing_is_asked_of_others_where_text_found_all_that_contain_anything() -> None:
    nearest = [NearEntity(0.9, "a", "0.0"), NearEntity(0.1, "b", "0.0")]
    assert Ranking(nearest, own_texts("c"), {"c": 0.5}).unshared(SearchRequest("", 5, 0.7)) == []
    assert Ranking(nearest, own_texts("c", whole=False), {"c": 0.5}).unshared(SearchRequest("", 5, 0.7)) == ["a", "b"]
    assert Ranking(nearest, own_texts("c", whole=False), {"c": 0.5}).unshared(SearchRequest("", 1, 0.7)) == ["a"]
