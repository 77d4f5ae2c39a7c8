"""A permit counts its request once, and keeps a place in a quota only for what was created."""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, cast

import pytest
import pytest_asyncio

from node.common.refusal import Invalid, Refused
from node.config import Limit, Limits
from node.share.capacity import Capacity
from node.store import OutcomeUnknown, Store, StoreUnavailable, connect, ids, keys
from node.store.idempotency import IdempotencyKey, bound_key
from node.store.limits import LimitState, LimitStore
from node.web.http import Request
from node.web.limits import Limiter, Permit
from tests.support.lone_request import lone_request
from tests.support.servers import RedisServer

CLIENT = "203.0.113.7"
COUNT = 3
"""Requests of a class allowed in a minute."""
QUOTA = 2
"""Quota of contracts of a client."""
SESSION = "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"
OTHER_SESSION = "01a1fbd5-10f1-7326-b473-b7b7836b6ce9"


def request() -> Request:
    scope: dict[str, Any] = {"method": "POST", "path": "/", "headers": [], "query_string": b""}
    return lone_request(scope, client=CLIENT)


class Desk:
    """A limiter, and what Redis has counted."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.capacity = Capacity()
        few = Limits(task=Limit(COUNT, 60), line=Limit(COUNT, 60))
        self.limiter = Limiter(few, LimitStore(store), {"task": QUOTA}, self.capacity)
        self.request = request()

    def permit(self, kind: str = "task", scope: str = "", *, refusals: bool = True) -> Permit:
        self.request = request()
        return self.limiter.permit(self.request, kind, scope, refusals=refusals)

    async def counted(self) -> int:
        """Return how many requests took a place in the limit."""
        return await self._size("LLEN", keys.rate(ids.home_of(CLIENT), "task", CLIENT))

    async def lines(self) -> int:
        """Return how many requests took a place in the limit of the session."""
        return await self._size("LLEN", keys.rate(ids.partition_of_id(SESSION), f"line:{SESSION}", CLIENT))

    async def forget(self, session_id: str) -> None:
        """Make Redis forget the lines of a session."""
        rate = keys.rate(ids.partition_of_id(session_id), f"line:{session_id}", CLIENT)
        assert await self.store.command("DEL", rate) == 1

    async def open(self, session_id: str) -> None:
        """Create a session with that id."""
        await self.store.command("SET", keys.session(session_id), "", "EX", 60)

    async def places(self) -> int:
        """Return how many contracts the client's quota holds."""
        return await self._size("ZCARD", keys.places(ids.home_of(CLIENT), "task", CLIENT))

    async def remember(self, key: IdempotencyKey) -> None:
        """Record that something was created under a key."""
        await self.store.command("SET", keys.idempotency(key.partition, key.scope), "", "EX", 60)

    async def _size(self, command: str, key: str) -> int:
        return cast("int", await self.store.command(command, key))

    @property
    def headers(self) -> dict[bytes, bytes]:
        """The additional headers of the answer to the last request."""
        assert len(dict(self.request.answer_headers)) == len(self.request.answer_headers), "said twice"
        return dict(self.request.answer_headers)


@pytest_asyncio.fixture
async def desk(empty_redis: RedisServer) -> AsyncIterator[Desk]:
    async with await connect(empty_redis.url, timeout=5.0, max_in_flight=64) as store:
        yield Desk(store)


REFUSALS = [Refused("language.not_english"), Invalid.field("body", "title", msg="is empty")]


async def test_of_a_total_that_is_nearly_taken_a_client_gets_one(desk: Desk) -> None:
    desk.capacity.taken = {"task": 0.9}
    async with desk.permit() as permit:
        await permit.hold()
    with pytest.raises(Refused, match=r"quota\.task"):
        async with desk.permit() as permit:
            await permit.hold()
    desk.capacity.taken = {"task": 0.5}
    async with desk.permit() as permit:
        await permit.hold()
    assert await desk.places() == QUOTA


async def test_a_script_that_counts_threads_is_told_how_many_there_may_be(desk: Desk) -> None:
    desk.limiter = Limiter(Limits(), LimitStore(desk.store), {"board": QUOTA}, desk.capacity)
    assert desk.permit("board").most == QUOTA
    desk.capacity.taken = {"thread": 0.9}
    assert desk.permit("board").most == 1
    desk.limiter.change(Limits(board=Limit(0, 60)))
    assert desk.permit("board").most == 0


@pytest.mark.parametrize("refusal", REFUSALS, ids=["refused", "invalid"])
async def test_a_request_refused_before_it_was_counted_counts_once(desk: Desk, refusal: Exception) -> None:
    with pytest.raises(type(refusal)):
        async with desk.permit():
            raise refusal
    assert (await desk.counted(), await desk.places()) == (1, 0)
    assert desk.headers[b"ratelimit"].startswith(b'"task";r=%d;' % (COUNT - 1))


async def test_a_request_refused_after_it_was_counted_counts_once(desk: Desk) -> None:
    with pytest.raises(Refused):
        async with desk.permit() as permit:
            await permit.count()
            raise Refused("thread.unknown")
    with pytest.raises(Refused):
        async with desk.permit() as permit:
            await permit.hold()
            raise Refused("idempotency.conflict")
    assert await desk.counted() == 2


async def test_a_request_that_a_script_counted_is_not_counted_again(desk: Desk) -> None:
    with pytest.raises(Refused, match=r"thread\.closed"):
        async with desk.permit() as permit:
            permit.settle(LimitState(True, 2, 59.1))
            raise Refused("thread.closed")
    assert await desk.counted() == 0
    assert desk.headers[b"ratelimit"] == b'"task";r=2;t=60'


@pytest.mark.parametrize("failure", [ZeroDivisionError(), Refused("store.busy")], ids=["bug", "busy"])
async def test_a_failure_of_ours_is_not_counted(desk: Desk, failure: Exception) -> None:
    with pytest.raises(type(failure)):
        async with desk.permit():
            raise failure
    assert await desk.counted() == 0


async def test_where_refusals_are_free_a_refused_request_is_not_counted(desk: Desk) -> None:
    with pytest.raises(Refused):
        async with desk.permit(refusals=False):
            raise Refused("language.not_english")
    assert await desk.counted() == 0
    async with desk.permit(refusals=False) as permit:
        await permit.count()
    assert await desk.counted() == 1


async def test_who_is_over_the_limit_is_told_so_whatever_the_request_says(desk: Desk) -> None:
    for _ in range(COUNT):
        async with desk.permit() as permit:
            await permit.count()
    with pytest.raises(Refused, match=r"limit\.exceeded"):
        async with desk.permit():
            raise Refused("language.not_english")
    with pytest.raises(Refused, match=r"limit\.exceeded"):
        async with desk.permit():
            pytest.fail("the block of a client that is over the limit was run")
    assert desk.headers[b"ratelimit"].startswith(b'"task";r=0;')
    assert await desk.counted() == COUNT


async def test_a_limit_of_an_entity_is_its_own(desk: Desk) -> None:
    for each in (SESSION, OTHER_SESSION):
        await desk.open(each)
    for _ in range(COUNT):
        async with desk.permit("line", SESSION) as permit:
            await permit.count()
    with pytest.raises(Refused, match=r"limit\.exceeded"):
        async with desk.permit("line", SESSION) as permit:
            await permit.count()
    async with desk.permit("line", OTHER_SESSION) as permit:
        await permit.count()
    await desk.forget(SESSION)
    with pytest.raises(Refused, match=r"limit\.exceeded"):  # the process remembers, and does not ask Redis
        async with desk.permit("line", SESSION):
            pytest.fail("the block of a client that is over the limit was run")


async def test_a_request_that_is_refunded_leaves_its_place(desk: Desk) -> None:
    for _ in range(COUNT + 1):
        async with desk.permit() as permit:
            await permit.count()
            await permit.refund()
        assert desk.headers[b"ratelimit"].startswith(b'"task";r=%d;' % COUNT)
    assert await desk.counted() == 0


async def test_an_answer_to_a_request_that_is_refunded_still_says_what_is_left_of_another_limit(desk: Desk) -> None:
    async with desk.permit() as permit:
        await permit.count()
        desk.limiter.permit(desk.request, "line", SESSION).settle(LimitState(True, 1, 59.1))
        await permit.refund()
    told = [value for name, value in desk.request.answer_headers if name == b"ratelimit"]
    assert [value.partition(b";t=")[0] for value in told] == [b'"line";r=1', b'"task";r=%d' % COUNT]


async def test_who_was_over_a_limit_is_let_in_at_once_when_it_is_raised(desk: Desk) -> None:
    for _ in range(COUNT):
        async with desk.permit() as permit:
            await permit.count()
    with pytest.raises(Refused, match=r"limit\.exceeded"):
        async with desk.permit() as permit:
            await permit.count()
    desk.limiter.change(Limits(task=Limit(COUNT + 1, 60)))
    async with desk.permit() as permit:
        await permit.count()
    assert await desk.counted() == COUNT + 1


async def test_who_is_over_a_limit_when_it_is_switched_off_may_try_again(desk: Desk) -> None:
    """The answer must be neither a 500, nor a 200 for something that was not kept."""
    async with desk.permit() as permit:
        desk.limiter.change(Limits(task=Limit(0, 60)))
        with pytest.raises(Refused, match=r"store\.busy"):
            permit.settle(LimitState(False, 0, 59.1))
    async with desk.permit() as permit:
        permit.settle(LimitState(True, 0, 0))


async def test_a_request_that_is_over_another_limit_counts_in_neither(desk: Desk) -> None:
    line = desk.permit("line", SESSION)
    for _ in range(COUNT):
        with pytest.raises(Refused, match=r"limit\.exceeded"):
            async with desk.permit() as permit:
                await permit.count()
                line.settle(LimitState(False, 0, 59.1))
    assert await desk.counted() == 0
    assert desk.headers[b"ratelimit"].startswith(b'"task";r=%d;' % COUNT)


@pytest.mark.parametrize(
    "failure",
    [*REFUSALS, StoreUnavailable("it was not sent"), OutcomeUnknown("no answer came"), ZeroDivisionError()],
)
@pytest.mark.parametrize("without_permit", [False, True])
async def test_only_what_may_be_kept_is_charged(desk: Desk, failure: Exception, without_permit: bool) -> None:
    desk.capacity.allowance = 10_000  # bytes, of which a thread takes more than half
    with pytest.raises(type(failure)):
        async with desk.limiter.charged(request(), "task", 100) if without_permit else desk.permit() as permit:
            if isinstance(permit, Permit):
                await permit.charge("task", 100)
            raise failure
    async with desk.permit() as permit:
        if isinstance(failure, OutcomeUnknown | ZeroDivisionError):
            with pytest.raises(Refused, match=r"quota\.bytes"):
                await permit.charge("task", 100)
        else:
            await permit.charge("task", 100)


@pytest.mark.parametrize("refusal", [Refused("session.gone"), *REFUSALS])
async def test_of_an_entity_that_does_not_exist_redis_keeps_nothing(desk: Desk, refusal: Exception) -> None:
    with pytest.raises(type(refusal)):
        async with desk.permit("line", SESSION):
            raise refusal
    assert await desk.lines() == 0
    await desk.open(SESSION)
    with pytest.raises(type(refusal)):
        async with desk.permit("line", SESSION):
            raise refusal
    assert await desk.lines() == 1


async def test_what_was_made_keeps_its_place(desk: Desk) -> None:
    async with desk.permit() as permit:
        assert await permit.hold()
    assert (await desk.counted(), await desk.places()) == (1, 1)


@pytest.mark.parametrize(
    "failure",
    [*REFUSALS, ZeroDivisionError(), StoreUnavailable("it was not sent")],
    ids=["refused", "invalid", "bug", "not done"],
)
async def test_a_block_that_fails_gives_its_place_back(desk: Desk, failure: Exception) -> None:
    with suppress(type(failure)):
        async with desk.permit() as permit:
            await permit.hold()
            raise failure
    assert (await desk.counted(), await desk.places()) == (1, 0)


async def test_the_place_of_what_may_have_been_made_stays_taken(desk: Desk) -> None:
    with pytest.raises(OutcomeUnknown):
        async with desk.permit() as permit:
            await permit.hold()
            raise OutcomeUnknown("no answer came")
    assert (await desk.counted(), await desk.places()) == (1, 1)


@pytest.mark.parametrize(("owner", "call"), [(Store, "run"), (LimitStore, "take_bytes")], ids=["hold", "charge"])
async def test_a_place_for_what_was_not_made_is_given_back_if_its_own_answer_is_lost(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, owner: type, call: str
) -> None:
    """Otherwise an inbox that nobody had begun to open would keep its place for a month."""
    desk.capacity.allowance = 10_000
    answered = getattr(owner, call)

    async def lost(*arguments: object) -> None:
        await answered(*arguments)
        raise OutcomeUnknown("no answer came")

    monkeypatch.setattr(owner, call, lost)
    with pytest.raises(OutcomeUnknown):
        async with desk.permit() as permit:
            await permit.hold()
            await permit.charge("task", 100)
    assert (await desk.counted(), await desk.places()) == (1, 0)


async def test_a_replay_gives_its_place_back_and_says_so(desk: Desk) -> None:
    async with desk.permit() as permit:
        await permit.hold()
        await permit.replay()
    assert (await desk.counted(), await desk.places()) == (1, 0)
    assert desk.headers[b"idempotency-replayed"] == b"true"


async def test_a_full_quota_does_not_count(desk: Desk) -> None:
    for _ in range(QUOTA):
        async with desk.permit() as permit:
            await permit.hold()
    with pytest.raises(Refused, match=r"quota\.task") as refused:
        async with desk.permit() as permit:
            await permit.hold()
    assert refused.value.retry_after
    assert (await desk.counted(), await desk.places()) == (QUOTA, QUOTA)


@pytest.mark.parametrize("step", ["hold", "charge"])
async def test_a_refusal_for_want_of_room_does_not_count(desk: Desk, step: str) -> None:
    desk.capacity.refused = {"task": "memory.low"}
    with pytest.raises(Refused, match=r"memory\.low"):
        async with desk.permit() as permit:
            await (permit.hold() if step == "hold" else permit.charge("task", 100))
    assert (await desk.counted(), await desk.places()) == (0, 0)


async def test_a_charge_that_is_refused_gives_the_place_back(desk: Desk) -> None:
    desk.capacity.allowance = 1000  # bytes, less than a contract takes
    with pytest.raises(Refused, match=r"quota\.bytes"):
        async with desk.permit() as permit:
            await permit.hold()
            await permit.charge("task", 100)
    assert (await desk.counted(), await desk.places()) == (1, 0)


async def test_a_request_that_repeats_an_earlier_one_needs_no_room(desk: Desk) -> None:
    key = bound_key("task", CLIENT, "a key that nobody guesses", b"{}")
    assert key
    desk.capacity.allowance = 1000  # bytes, less than a contract takes
    with pytest.raises(Refused, match=r"quota\.bytes"):
        async with desk.permit() as permit:
            await permit.hold(repeats=key)
            await permit.charge("task", 100)
    await desk.remember(key)
    async with desk.permit() as permit:
        await permit.hold(repeats=key)
        await permit.charge("task", 100)
        await permit.replay()
    assert (await desk.counted(), await desk.places()) == (2, 0)
    desk.capacity.refused = {"task": "memory.low"}
    with pytest.raises(Refused, match=r"memory\.low"):
        async with desk.permit() as permit:
            await permit.hold(repeats=key)


async def test_without_a_limit_nothing_is_counted(empty_redis: RedisServer) -> None:
    async with await connect(empty_redis.url, timeout=5.0, max_in_flight=64) as store:
        limiter = Limiter(Limits(task=Limit(0, 60)), LimitStore(store), {"task": 1}, Capacity())
        for _ in range(3):
            sent = request()
            async with limiter.permit(sent, "task") as permit:
                assert await permit.hold() == ""
                await permit.count()
                permit.settle(LimitState(True, 0, 0))
            assert sent.answer_headers == []
        assert await store.command("DBSIZE", key="any") == 0
