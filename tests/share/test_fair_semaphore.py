"""Places shared by many are given to each of them in turn."""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from node.share.fair_semaphore import FairSemaphore, QueueFull
from tests.support.servers import PATIENCE


async def until(condition: Callable[[], object]) -> None:
    """Yield to the other tasks until the condition holds. Nothing here waits for the clock."""
    for _ in range(100):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come to hold")


@pytest.mark.parametrize(
    ("each", "expected"),
    [(1, ["greedy", "modest", "greedy", "greedy"]), (2, ["greedy", "greedy", "modest", "greedy"])],
)
async def test_one_key_waits_for_itself_and_another_is_next(each: int, expected: list[str]) -> None:
    turns, order, gate = FairSemaphore(1, each=each), list[str](), asyncio.Event()

    async def work(key: str) -> None:
        async with turns.of(key):
            await gate.wait()
            order.append(key)

    async with asyncio.TaskGroup() as group:
        for key in ("greedy", "greedy", "greedy", "modest"):
            group.create_task(work(key))
        await asyncio.sleep(0)
        gate.set()

    assert order == expected


async def test_a_key_has_no_more_than_its_share_even_if_places_are_free() -> None:
    turns, entered, gate = FairSemaphore(4, each=2), Counter[str](), asyncio.Event()

    async def work(key: str) -> None:
        async with turns.of(key):
            entered[key] += 1
            await gate.wait()

    tasks = [asyncio.create_task(work(key)) for key in ("a", "a", "a", "a", "b")]
    await until(lambda: entered.total() == 3)
    assert entered == {"a": 2, "b": 1}
    assert turns.waiting("a") == 2

    gate.set()
    await asyncio.gather(*tasks)
    assert entered == {"a": 4, "b": 1}


async def test_who_gives_up_frees_its_place_in_the_queue() -> None:
    turns, gate = FairSemaphore(1, waiting=1), asyncio.Event()

    async def work() -> None:
        async with turns.of("a"):
            await gate.wait()

    first, second = asyncio.create_task(work()), asyncio.create_task(work())
    await until(lambda: turns.waiting("a") == 1)
    with pytest.raises(QueueFull):
        await work()

    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    third = asyncio.create_task(work())
    gate.set()
    await asyncio.gather(first, third)


async def test_a_place_given_to_who_was_just_cancelled_goes_on_to_the_next() -> None:
    turns, gate, done = FairSemaphore(1), asyncio.Event(), list[str]()

    async def work(key: str) -> None:
        async with turns.of(key):
            await gate.wait()
            done.append(key)

    first, second, third = (asyncio.create_task(work(key)) for key in ("a", "b", "c"))
    await until(lambda: turns.waiting("c"))
    gate.set()
    await until(first.done)
    second.cancel()  # the place has been or is about to be given to it, but it has not run since
    await asyncio.gather(first, second, third, return_exceptions=True)
    assert done[-1] == "c"


async def test_nothing_is_kept_of_keys_that_have_left() -> None:
    turns = FairSemaphore(1)
    turns.take("a")
    served, given_up = (asyncio.create_task(turns.enter(key)) for key in ("b", "c"))
    await until(lambda: turns.waiting("c"))
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    turns.leave("a")
    await served
    turns.leave("b")
    assert not any(vars(turns)[held] for held in ("_taken", "_queues", "_next"))


class Machine(RuleBasedStateMachine):
    """Tasks that enter, leave and give up at random: no place is lost, and none is given twice."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.turns = FairSemaphore(3, each=2)
        self.tasks: list[tuple[asyncio.Task[None], asyncio.Event]] = []
        self.inside: Counter[str] = Counter()

    @rule(key=st.sampled_from("abcd"))
    def enter(self, key: str) -> None:
        leave = asyncio.Event()

        async def work() -> None:
            async with self.turns.of(key):
                self.inside[key] += 1
                try:
                    await leave.wait()
                finally:
                    self.inside[key] -= 1

        self.tasks.append((self.runner.get_loop().create_task(work()), leave))
        self.settle()

    @precondition(lambda self: self.tasks)
    @rule(which=st.integers(0, 1000), patient=st.booleans())
    def end(self, which: int, patient: bool) -> None:
        task, leave = self.tasks.pop(which % len(self.tasks))
        if patient:
            leave.set()
        else:
            task.cancel()
        self.settle()

    def settle(self) -> None:
        async def turns_of_the_loop() -> None:
            # Whoever was told to leave while it waited leaves in the turn in which it enters, and so do those after it.
            for _ in range(6 + sum(map(self.turns.waiting, "abcd"))):
                await asyncio.sleep(0)

        self.runner.run(turns_of_the_loop())

    @invariant()
    def all_places_are_used_and_none_twice(self) -> None:
        assert self.inside.total() <= 3
        assert all(count <= 2 for count in self.inside.values())
        waiting = {key: self.turns.waiting(key) for key in "abcd"}
        could_enter = [key for key, count in waiting.items() if count and self.inside[key] < 2]
        assert self.inside.total() == 3 or not could_enter

    def teardown(self) -> None:
        async def end_all() -> None:
            for _, leave in self.tasks:
                leave.set()
            await asyncio.gather(*(task for task, _ in self.tasks), return_exceptions=True)

        self.runner.run(end_all())
        self.runner.close()


TestTurnsMachine = Machine.TestCase


async def test_who_has_more_than_its_share_gives_places_back_before_it_gets_another() -> None:
    turns, entered = FairSemaphore(100, each=2), list[str]()
    for _ in range(4):
        turns.take("greedy")

    async def work() -> None:
        async with turns.of("greedy"):
            entered.append("greedy")

    task = asyncio.create_task(work())
    await until(lambda: turns.waiting("greedy") == 1)
    for left in (3, 2):
        turns.leave("greedy")
        await asyncio.sleep(0)
        assert not entered, f"it entered beside {left}"
    turns.leave("greedy")
    await task
    assert entered == ["greedy"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=3, max_size=30), st.randoms())
def test_many_that_give_up_at_the_moment_a_place_becomes_free_hold_up_nobody(
    asking: list[tuple[str, bool]], random: Random
) -> None:
    """A place must not be given to a task that has just given up, or nobody would be next."""

    async def run() -> None:
        turns, gate, inside = FairSemaphore(2, each=1), asyncio.Event(), Counter[str]()

        async def work(key: str) -> None:
            async with turns.of(key):
                inside[key] += 1
                try:
                    assert inside[key] == 1
                    assert inside.total() <= 2
                    await gate.wait()
                finally:
                    inside[key] -= 1

        tasks = [asyncio.create_task(work(key)) for key, _ in asking]
        await asyncio.sleep(0)
        given_up = [task for task, (_, gives_up) in zip(tasks, asking, strict=True) if gives_up]
        random.shuffle(given_up)
        gate.set()
        for task in given_up:  # tasks with a place and without one, in one turn of the loop
            task.cancel()
        async with asyncio.timeout(PATIENCE):
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome, (_, gives_up) in zip(outcomes, asking, strict=True):
            assert isinstance(outcome, asyncio.CancelledError) if gives_up else outcome is None
        async with asyncio.timeout(PATIENCE), turns.of("d"), turns.of("e"):
            pass

    asyncio.run(run())
