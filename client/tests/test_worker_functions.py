"""The kinds of function that a worker may have, and what they may raise."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.nodes import NodeProcess
from tests.support.servers import PATIENCE

from relay_client import AsyncRelay
from relay_client.tasks import ClaimedTask, Task
from relay_client.worker import TaskFailed, worker


async def count(task: ClaimedTask) -> int:
    await asyncio.sleep(0)
    return len(task["title"])


def wrapped(task: ClaimedTask) -> Any:
    return count(task)


class Counter:
    async def __call__(self, task: ClaimedTask) -> int:
        return await count(task)


async def ended(node: NodeProcess, work: Callable[[ClaimedTask], Any]) -> Task:
    """Return the finished contract of a worker with this function. The worker itself must go on until it is stopped."""
    counting = worker(name="odd counter", publisher_ids=["odd counts"])(work)
    async with AsyncRelay(node.url) as relay, asyncio.timeout(PATIENCE):
        offered = await relay.tasks.offer("odd counts", "Count the letters", max_attempts=1)
        serving = asyncio.create_task(counting.serve(relay))
        result = asyncio.create_task(relay.tasks.result(offered["id"]))
        await asyncio.wait({serving, result}, return_when=asyncio.FIRST_COMPLETED)
        assert not serving.done() or serving.result(), "the worker has ended"
        counting.stop()
        await serving
        return await result


@pytest.mark.parametrize("work", [Counter(), wrapped], ids=["object", "wrapped"])
async def test_an_async_function_need_not_look_like_one(served: NodeProcess, work: Callable[..., Any]) -> None:
    """Regression: every contract failed, because the coroutine was taken for the result and is not JSON."""
    assert (await ended(served, work)).get("result_payload") == len("Count the letters")


async def test_a_failure_in_other_types_than_text_ends_no_worker(served: NodeProcess) -> None:
    """For example, it is easy to pass the exception itself instead of its text."""
    given: list[Any] = [404, ValueError("page 2 is blank"), "no"]

    def fail(_: ClaimedTask) -> None:
        raise TaskFailed(given[0], given[1], retryable=given[2])

    (attempt,) = (await ended(served, fail)).get("attempts", [])
    assert attempt["reason"] == {"code": "404", "message": "page 2 is blank", "retryable": True}
