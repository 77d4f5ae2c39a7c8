"""What the operator is told of things that have a place in a quota."""

from node.config import Limit
from node.store.limits import LimitStore
from tests.support.fake_store import Clock, FakeStore

LIMIT = Limit(10, 60)


async def test_a_thing_is_listed_by_its_label_until_its_place_ends_or_is_released() -> None:
    clock = Clock()
    with clock.installed():
        limits = LimitStore(FakeStore())
        board, *_ = await limits.take_quota("stream", "203.0.113.7", LIMIT, 5, 60_000, counted=True, label="board ")
        await limits.take_quota("stream", "2001:db8::/64", LIMIT, 5, 90_000, counted=True, label="tasks ")
        await limits.take_quota("session", "203.0.113.7", LIMIT, 5, 90_000, counted=True, label="session ")
        assert {name.split()[0] for name in await limits.things("stream")} == {"board", "tasks"}
        await limits.release(board)
        assert [name.split()[0] for name in await limits.things("stream")] == ["tasks"]
        clock.advance(91)
        assert await limits.things("stream") == []
