"""Steps of the search whose effects no answer shows at once (such as lua/reply_put.lua)."""

from node.search.index_versions import search_switch
from node.search.indexing.documents import reindex_end, reindex_start, reply_put, vector_move, vector_remove
from node.store import keys
from node.store.steps import Step
from tests.support.fake_store import Clock, FakeStore

VECTOR, ASIDE = keys.Key("vector:{00}"), keys.Key("aside:{00}")
MARKS, NEXT_MARKS = keys.Key("marks:{00}"), keys.Key("next-marks:{00}")
DOCS = keys.Key("docs:{00}")
DAY = 86_400


def put(seq: int, added: bytes, forced: int = 0) -> Step:
    """Return the step for a reply that adds these marks, where at most four bytes of marks are kept."""
    return reply_put(
        doc=keys.Key(f"doc:{{00}}:{seq}"),
        docs=DOCS,
        marks=MARKS,
        next_marks=NEXT_MARKS,
        seq=seq,
        forced=forced,
        most=4,
        terms="",
        added=added,
        passages=1,
    )


async def test_marks_that_are_kept_are_those_of_the_newest_replies() -> None:
    store = FakeStore()
    for seq, added in enumerate((b"aaaa", b"bbbb"), 1):
        await store.run(put(seq, added))
    assert await store.command("GET", MARKS) == b"aaaabbbb"
    await store.run(put(3, b"c"))
    assert await store.command("GET", MARKS) == b"bbbc"


async def test_new_marks_take_the_place_of_the_old_ones_when_they_are_complete() -> None:
    store = FakeStore()
    await store.run(put(1, b"aaaa"))
    replace = reindex_end(marks=MARKS, next_marks=NEXT_MARKS)
    assert await store.run(replace) == [b"absent"]
    await store.run(reindex_start(next_marks=NEXT_MARKS, docs=DOCS, life=DAY * 1000))
    for step in (put(1, b"AAAA", forced=1), put(2, b"bb"), put(3, b"cc", forced=1)):
        await store.run(step)
    assert await store.command("GET", MARKS) == b"aaaabb", "with a reply that came meanwhile"
    assert await store.run(replace) == [b"replaced"]
    assert (await store.command("GET", MARKS), await store.command("PTTL", MARKS)) == (b"AAAAbbcc", -1)
    await store.run(put(1, b"DDDD", forced=1))
    assert await store.command("GET", MARKS) == b"DDDD", "nothing is reindexed now"


async def test_without_replies_no_marks_are_left() -> None:
    store = FakeStore()
    await store.run(put(1, b"aaaa"))
    await store.run(reindex_start(next_marks=NEXT_MARKS, docs=DOCS, life=DAY * 1000))
    assert await store.run(reindex_end(marks=MARKS, next_marks=NEXT_MARKS)) == [b"replaced"]
    assert await store.command("EXISTS", MARKS, NEXT_MARKS) == 0


async def test_a_vector_that_lies_aside_ends_and_one_that_is_put_back_does_not(clock: Clock) -> None:
    store = FakeStore()
    await store.command("HSET", VECTOR, "vector", "v")
    away = vector_move(source=VECTOR, target=ASIDE, life=DAY * 1000)
    back = vector_move(source=ASIDE, target=VECTOR, life=0)
    assert await store.run(away) == [b"moved"]
    assert await store.run(back) == [b"moved"]
    clock.advance(DAY + 1)
    assert await store.command("EXISTS", VECTOR) == 1
    assert await store.run(away) == [b"moved"]
    clock.advance(DAY + 1)
    assert await store.run(back) == [b"absent"]


async def test_a_vector_that_lies_aside_is_removed_with_its_passage() -> None:
    store = FakeStore()
    await store.command("HSET", VECTOR, "vector", "v")
    await store.run(vector_move(source=VECTOR, target=ASIDE, life=DAY * 1000))
    await store.run(vector_remove(vector=VECTOR, aside=ASIDE, passages=keys.Key("passages:{00}"), name="0"))
    assert await store.run(vector_move(source=ASIDE, target=VECTOR, life=0)) == [b"absent"]


async def test_a_worker_puts_no_index_version_into_use_but_the_one_that_it_has_built() -> None:
    store = FakeStore()
    current, built, backlog = (keys.Key(f"{name}:{{search}}") for name in ("live", "target", "backlog"))
    await store.command("HSET", built, "name", "another", "filled", 1)
    for name, outcome in (("mine", b"gone"), ("another", b"switched")):
        assert await store.run(search_switch(current=current, built=built, backlog=backlog, name=name)) == [outcome]
