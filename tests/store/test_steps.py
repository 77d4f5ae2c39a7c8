"""A step as a typed Python function: held against its script at import, sent in the order of the header."""

import asyncio
from collections.abc import Callable

import pytest

from node.store import CommandFailed, Store
from node.store.bulk import SHARE_OF_CALLS, bulk_steps
from node.store.errors import StoreBusy
from node.store.scripts import ScriptError
from node.store.steps import Key, Rest, step
from tests.store.conftest import Opener
from tests.store.conftest import step as made
from tests.support.servers import RedisServer, eventually


@step
def limit_take(*, rate: Key, count: int, window: int) -> None:
    """One that exists."""


@step
def events_trim(*, events: Key, gone: int, groups: Rest) -> None:
    """One that takes any number of arguments."""


async def test_a_step_runs_whatever_the_order_in_which_its_values_are_given(store: Store) -> None:
    assert await store.run(limit_take(window=60_000, rate=Key("rate:{00}:x:y"), count=3)) == [1, 2, 60_000]


def test_any_number_of_arguments_follow_the_others() -> None:
    trim = events_trim(groups=["a", "b"], gone=5, events=Key("events:{00}"))
    assert (list(trim.keys), list(trim.args)) == (["events:{00}"], [5, "a", "b"])
    assert list(events_trim(events=Key("events:{00}"), gone=5, groups=()).args) == [5]


@pytest.mark.parametrize("given", [{"count": None, "window": 1}, {"count": 1, "window": None}])
def test_a_step_takes_no_none(given: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="limit_take takes no None"):
        limit_take(rate=Key("rate:{00}:x:y"), **given)


def test_a_function_that_is_not_what_the_header_says_is_refused() -> None:
    def renamed(*, rate: Key, most: int, window: int) -> None: ...
    def in_another_order(*, rate: Key, window: int, count: int) -> None: ...
    def of_another_kind(*, rate: str, count: int, window: int) -> None: ...
    def too_few(*, rate: Key, count: int) -> None: ...
    def too_many(*, rate: Key, count: int, window: int, more: Rest) -> None: ...

    wrong: list[Callable[..., None]] = [renamed, in_another_order, of_another_kind, too_few, too_many]
    for function in wrong:
        function.__name__ = "limit_take"
        with pytest.raises(ScriptError, match="limit_take: its header names"):
            step(function)


def test_the_parameters_of_a_step_are_given_by_name() -> None:
    def limit_take(rate: Key, *, count: int, window: int) -> None: ...

    with pytest.raises(ScriptError, match="rate must be given by name"):
        step(limit_take)


COUNT = made("count", "return redis.call('INCRBY', key1, arg1)", args=1)


async def test_many_steps_are_answered_in_their_order(store: Store) -> None:
    steps = [COUNT(f"key{n % 3}", n) for n in range(9)]
    assert await store.run_all(steps) == [0, 1, 2, 3, 5, 7, 9, 12, 15]


async def test_a_bulk_takes_any_number_of_steps_and_leaves_calls_for_others(
    redis_server: RedisServer, open_store: Opener
) -> None:
    store = await open_store(redis_server.url, max_in_flight=2 * SHARE_OF_CALLS)
    with pytest.raises(StoreBusy):
        await store.run_all(COUNT("key", 1) for _ in range(100))
    await eventually(lambda: store.stats.in_flight == 0)
    others = (store.command("GET", "key") for _ in range(2 * SHARE_OF_CALLS - 2))
    replies, *_ = await asyncio.gather(bulk_steps(store, [COUNT("other", 1) for _ in range(100)]), *others)
    assert replies == list(range(1, 101))


BROKEN = made("broken", "return redis.error_reply('ERR no')")


async def test_one_step_that_fails_keeps_no_other_from_running(store: Store, redis_server: RedisServer) -> None:
    """The second was not sent again after Redis had said that it does not know the script."""
    with pytest.raises(CommandFailed):
        await store.run(BROKEN("key"))
    redis_server.do("SCRIPT", "FLUSH")
    with pytest.raises(CommandFailed):
        await store.run_all([BROKEN("key"), COUNT("other", 1)])
    assert redis_server.do("GET", "other") == b"1"
