"""Due members are taken by one worker, which learns when to look again (lua/due_take.lua)."""

from node.store import keys
from node.store.due import TakenNames, take_due
from tests.support.fake_store import Clock, FakeStore

PARTITION = 7
DUE = keys.agents_due(PARTITION)
HIDDEN = 60


async def take(store: FakeStore) -> TakenNames:
    return (await take_due(store, {PARTITION: DUE}, HIDDEN * 1000))[PARTITION]


async def test_what_is_due_is_taken_once_until_its_worker_may_be_gone(clock: Clock) -> None:
    store = FakeStore()
    at = round(clock.time() * 1000)
    await store.command("ZADD", DUE, at, "first", at + 5000, "second")
    assert await take(store) == (["first"], 5.0)
    clock.advance(2)
    assert await take(store) == ([], 3.0)
    clock.advance(3)
    assert await take(store) == (["second"], HIDDEN - 5.0)
    clock.advance(HIDDEN - 5)
    assert await take(store) == (["first"], 5.0)


async def test_nobody_looks_again_where_nothing_waits(clock: Clock) -> None:
    assert await take(FakeStore()) == ([], None)
