"""Faults around a worker: it continues, or gives its claim back."""

import asyncio
import os
import signal
import sys
from typing import cast

import pytest
from tests.support.nodes import NodeProcess
from tests.support.servers import PATIENCE, eventually

from relay_client import AsyncRelay, InvalidAnswer, UsageError
from relay_client.claims import renew
from relay_client.signals import SIGNALS
from relay_client.steps import Answer, NoAnswer, Send
from relay_client.tasks import ClaimedTask
from relay_client.transport import AsyncHttpxTransport
from relay_client.worker import TaskFailed, worker

TITLE = "Count the apples in this picture"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("worker.CLAIM_WAIT", "worker.RETURN_PAUSE", "claims.RETURN_PAUSE", "carrier.FIRST_PAUSE"):
        monkeypatch.setattr(f"relay_client.{name}", 0.2)


class AwayOnce(AsyncHttpxTransport):
    """A transport that cannot reach the node at first, and then answers that the claim is over."""

    requests = 0

    async def send(self, request: Send) -> Answer:
        self.requests += 1
        if self.requests == 1:
            raise NoAnswer("refused", unsent=True)
        return Answer(409, {}, b"{}")


async def test_a_lease_is_renewed_again_after_the_node_was_away() -> None:
    transport = AwayOnce()
    task = cast("ClaimedTask", {"id": "1", "claim_token": "token", "lease_seconds": 0.03})
    async with AsyncRelay("http://node.example", tries=1, transport=transport) as relay:
        await asyncio.wait_for(renew(relay, task), PATIENCE)
    assert transport.requests == 2


class AwayAtTheFirstRenewal(AwayOnce):
    """A transport that makes the next third of the lease far longer than the test waits."""

    def __init__(self, task: ClaimedTask) -> None:
        super().__init__()
        self._task = task

    async def send(self, request: Send) -> Answer:
        self._task["lease_seconds"] = 86_400
        return await super().send(request)


async def test_a_renewal_that_failed_does_not_wait_for_another_third_of_the_lease() -> None:
    task = cast("ClaimedTask", {"id": "1", "claim_token": "token", "lease_seconds": 0.03})
    transport = AwayAtTheFirstRenewal(task)
    async with AsyncRelay("http://node.example", tries=1, transport=transport) as relay:
        await asyncio.wait_for(renew(relay, task), PATIENCE)
    assert transport.requests == 2


class CanceledMeanwhile(AsyncHttpxTransport):
    """A transport that loses the answer to the first claim that gets a contract, and has that contract cancelled."""

    def __init__(self, publisher: AsyncRelay, token: str) -> None:
        super().__init__()
        self._publisher = publisher
        self._token = token

    async def send(self, request: Send) -> Answer:
        answer = await super().send(request)
        if request.url.endswith("claim-next") and answer.status == 200 and self._token:
            token, self._token = self._token, ""
            await self._publisher.tasks.cancel(answer.json()["id"], token)
            raise NoAnswer("reset", unsent=False)
        return answer


async def test_a_worker_survives_a_claim_that_is_over_when_its_answer_comes(served: NodeProcess) -> None:
    @worker(name="counter", publisher_ids=["calls off"])
    def count(task: ClaimedTask) -> int:
        return 3

    async with AsyncRelay(served.url) as relay:
        offered = await relay.tasks.offer("calls off", TITLE)
        transport = CanceledMeanwhile(relay, offered["publisher_token"])
        async with AsyncRelay(served.url, transport=transport) as lossy:
            work = asyncio.create_task(count.serve(lossy))
            assert (await relay.tasks.result(offered["id"], within=PATIENCE))["status"] == "canceled"
            again = await relay.tasks.offer("calls off", TITLE)
            assert (await relay.tasks.result(again["id"], within=PATIENCE))["status"] == "completed"
            count.stop()
            await work


class AwayAfterTheClaim(AsyncHttpxTransport):
    """A transport that loses the answer to the first claim that gets a contract, and then cannot reach the node for
    `refusals` requests."""

    def __init__(self, refusals: int) -> None:
        super().__init__()
        self._refusals = refusals
        self._is_away = False

    async def send(self, request: Send) -> Answer:
        if self._is_away and self._refusals:
            self._refusals -= 1
            raise NoAnswer("refused", unsent=True)
        answer = await super().send(request)
        if request.url.endswith("claim-next") and answer.status == 200 and not self._is_away:
            self._is_away = True
            raise NoAnswer("reset", unsent=False)
        return answer


async def test_a_claim_whose_answer_was_lost_for_longer_than_all_tries_is_worked_on(
    served: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: the worker claimed again with another key, so the contract stayed claimed and nobody worked on it."""
    monkeypatch.setattr("relay_client.worker.RETURN_PAUSE", 0.1)

    @worker(name="counter", publisher_ids=["goes away"])
    def count(task: ClaimedTask) -> int:
        return 3

    away = AwayAfterTheClaim(2)  # for the second try of the claim, and the first try of the next one
    async with AsyncRelay(served.url) as relay, AsyncRelay(served.url, tries=2, transport=away) as lossy:
        offered = await relay.tasks.offer("goes away", TITLE)
        work = asyncio.create_task(count.serve(lossy))
        ended = await relay.tasks.result(offered["id"], within=PATIENCE)
        assert (ended["status"], ended["attempt"]) == ("completed", 1)
        count.stop()
        await work


class SilentAfterTheClaim(AsyncHttpxTransport):
    """A transport that withholds the answer to the first claim that gets a contract: the connection breaks or hangs."""

    def __init__(self, *, breaks: bool) -> None:
        super().__init__()
        self.has_claimed = asyncio.Event()
        self._breaks = breaks

    async def send(self, request: Send) -> Answer:
        answer = await super().send(request)
        if request.url.endswith("claim-next") and answer.status == 200 and not self.has_claimed.is_set():
            self.has_claimed.set()
            if not self._breaks:
                await asyncio.Event().wait()
            raise NoAnswer("reset", unsent=False)
        return answer


@pytest.mark.parametrize("ends", ["is stopped", "is stopped while the node hangs", "is cancelled"])
async def test_a_worker_that_ends_before_its_claim_is_answered_gives_it_back(served: NodeProcess, ends: str) -> None:
    """Regression: the contract stayed claimed and nobody worked on it; without a lease, for ever."""

    @worker(name="counter", publisher_ids=[ends])
    def count(task: ClaimedTask) -> int:
        return 3

    transport = SilentAfterTheClaim(breaks=ends == "is stopped")
    async with AsyncRelay(served.url) as relay, AsyncRelay(served.url, tries=1, transport=transport) as lossy:
        offered = await relay.tasks.offer(ends, TITLE)
        work = asyncio.create_task(count.serve(lossy))
        await transport.has_claimed.wait()
        if ends == "is cancelled":
            work.cancel()
        else:
            count.stop()
        await asyncio.wait_for(asyncio.gather(work, return_exceptions=True), PATIENCE)
        left = await relay.tasks.get(offered["id"])
    assert (left["status"], left["assignee_id"], left.get("attempts", [])) == ("offered", None, [])


async def test_a_failure_may_name_a_file_whose_name_is_not_text(served: NodeProcess) -> None:
    name = os.fsdecode(b"/data/\x80.csv")  # has a lone surrogate

    @worker(name="reader", publisher_ids=["odd files"])
    def read(task: ClaimedTask) -> None:
        raise TaskFailed(name, f"cannot read {name}", retryable=False)

    async with AsyncRelay(served.url) as relay:
        offered = await relay.tasks.offer("odd files", TITLE, max_attempts=1)
        work = asyncio.create_task(read.serve(relay))
        ended = await relay.tasks.result(offered["id"], within=PATIENCE)
        read.stop()
        await work
    [attempt] = ended.get("attempts", [])
    assert attempt["reason"] is not None
    assert attempt["reason"]["message"] == "cannot read /data/?.csv"


async def test_what_a_cancelled_worker_has_claimed_is_offered_again(served: NodeProcess) -> None:
    has_begun = asyncio.Event()

    @worker(name="sleeper", publisher_ids=["cancels"])
    async def sleep(task: ClaimedTask) -> None:
        has_begun.set()
        await asyncio.Event().wait()

    async with AsyncRelay(served.url) as relay:
        offered = await relay.tasks.offer("cancels", TITLE)
        work = asyncio.create_task(sleep.serve(relay))
        await has_begun.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert (await relay.tasks.get(offered["id"]))["status"] == "offered"


async def test_a_worker_that_was_stopped_before_it_served_does_not(served: NodeProcess) -> None:
    @worker(name="counter", publisher_ids=["nobody"])
    def count(task: ClaimedTask) -> int:
        return 3

    async with AsyncRelay(served.url) as relay:
        count.stop()
        await asyncio.wait_for(count.serve(relay), PATIENCE)


async def test_a_worker_that_serves_already_says_so(served: NodeProcess) -> None:
    """Otherwise the end of one run would stop both, or neither."""

    @worker(name="counter", publisher_ids=["nobody"])
    def count(task: ClaimedTask) -> int:
        return 3

    async with AsyncRelay(served.url) as relay:
        for _ in range(2):  # a worker that has ended may serve again
            work = asyncio.create_task(count.serve(relay))
            await asyncio.sleep(0)
            with pytest.raises(UsageError, match="serves already"):
                await asyncio.wait_for(count.serve(relay), PATIENCE)
            assert not work.done()
            count.stop()
            await asyncio.wait_for(work, PATIENCE)


@pytest.mark.parametrize("system", ["Unix", "Windows"])
async def test_a_signal_stops_all_workers_of_a_process_and_then_does_what_it_did_before(
    served: NodeProcess, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    """Regression: a signal stopped only the worker that began last, and did nothing once that one had ended."""

    def not_implemented(*_: object) -> None:
        raise NotImplementedError

    def count(task: ClaimedTask) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        return 3

    if system == "Windows":
        monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", not_implemented)
        monkeypatch.setattr(asyncio.get_running_loop(), "remove_signal_handler", not_implemented)
    before = [signal.getsignal(each) for each in SIGNALS]
    workers = [worker(name="counter", publisher_ids=[f"signals of {system}"])(count) for _ in range(3)]
    async with AsyncRelay(served.url) as relay:
        offered = await relay.tasks.offer(f"signals of {system}", TITLE)
        await asyncio.wait_for(asyncio.gather(*(one.until_signalled(relay) for one in workers)), PATIENCE)
        assert (await relay.tasks.get(offered["id"]))["status"] == "completed"
    assert [signal.getsignal(each) for each in SIGNALS] == before


class CancelsAround(AsyncHttpxTransport):
    """A transport that cancels the worker `turns` turns of the event loop after the answer to its first claim that gets
    a contract."""

    def __init__(self, turns: int) -> None:
        super().__init__()
        self.work: asyncio.Task[None] | None = None
        self._turns = turns

    async def send(self, request: Send) -> Answer:
        answer = await super().send(request)
        if request.url.endswith("claim-next") and answer.content != b"null" and self.work:
            self._cancel(self.work, self._turns)
            self.work = None
        return answer

    def _cancel(self, work: "asyncio.Task[None]", turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._cancel, work, turns - 1)
        else:
            work.cancel()


@pytest.mark.parametrize("turns", range(6))
async def test_a_worker_that_is_cancelled_as_its_claim_is_answered_ends(served: NodeProcess, turns: int) -> None:
    """Regression: a cancellation at a certain turn of the event loop was lost, and the worker went on for ever."""
    publisher = f"cancels {turns}"

    @worker(name="sleeper", publisher_ids=[publisher])
    async def sleep(task: ClaimedTask) -> None:
        await asyncio.Event().wait()

    transport = CancelsAround(turns)
    async with AsyncRelay(served.url) as relay, AsyncRelay(served.url, transport=transport) as working:
        offered = await relay.tasks.offer(publisher, TITLE)
        transport.work = work = asyncio.create_task(sleep.serve(working))
        await asyncio.wait({work}, timeout=PATIENCE)
        assert work.cancelled()
        assert (await relay.tasks.get(offered["id"]))["status"] == "offered"


async def test_a_worker_that_is_cancelled_twice_leaves_nothing_behind(served: NodeProcess) -> None:
    """Regression: the worker went on following its submitted results and renewing their leases."""

    @worker(name="counter", publisher_ids=["cancels twice"])
    def count(task: ClaimedTask) -> int:
        return 3

    async with AsyncRelay(served.url) as relay, AsyncRelay(served.url) as working:
        offered = await relay.tasks.offer("cancels twice", TITLE, review_seconds=600)
        before = asyncio.all_tasks()
        work = asyncio.create_task(count.serve(working))
        await relay.tasks.result(offered["id"], until=["submitted"], within=PATIENCE)
        await eventually(lambda: len(asyncio.all_tasks() - before) > 2)  # until the follower runs, too
        work.cancel()
        await asyncio.sleep(0)
        work.cancel()
        await eventually(lambda: asyncio.all_tasks() == before)


class Truncating(AsyncHttpxTransport):
    """A transport that truncates the answer to the first claim that gets a contract."""

    is_over = False

    async def send(self, request: Send) -> Answer:
        answer = await super().send(request)
        if request.url.endswith("claim-next") and answer.content != b"null" and not self.is_over:
            self.is_over = True
            answer.content = answer.content[:-9]
        return answer


async def test_a_claim_whose_answer_is_cut_short_is_given_back(served: NodeProcess) -> None:
    """A proxy that sends no length may cause this. Regression: the contract stayed claimed and nobody worked on it."""

    @worker(name="counter", publisher_ids=["cuts"])
    def count(task: ClaimedTask) -> int:
        return 3

    async with AsyncRelay(served.url) as relay, AsyncRelay(served.url, transport=Truncating()) as cut:
        offered = await relay.tasks.offer("cuts", TITLE)
        with pytest.raises(InvalidAnswer):
            await count.serve(cut)
        assert (await relay.tasks.get(offered["id"]))["status"] == "offered"


@pytest.mark.parametrize("is_plain", [True, False], ids=["plain", "async"])
async def test_what_a_function_that_ends_the_process_has_claimed_is_offered_again(
    served: NodeProcess, is_plain: bool
) -> None:
    """Regression: the contract stayed claimed; without a lease, for ever."""

    def leave(task: ClaimedTask) -> None:
        sys.exit("enough")

    async def leave_beside_others(task: ClaimedTask) -> None:
        leave(task)

    publisher = f"leaves {is_plain}"
    work = worker(name="leaver", publisher_ids=[publisher])(leave if is_plain else leave_beside_others)
    async with AsyncRelay(served.url) as relay:
        offered = await relay.tasks.offer(publisher, TITLE)
        with pytest.raises(SystemExit):
            await work.serve(relay)
        assert (await relay.tasks.get(offered["id"]))["status"] == "offered"


async def test_a_function_may_raise_stop_iteration(served: NodeProcess) -> None:
    """Regression: the worker waited for ever and kept renewing the lease."""

    @worker(name="counter", publisher_ids=["iterates"])
    def first(task: ClaimedTask) -> str:
        return next(iter(task["input_artifact_ids"]))

    async with AsyncRelay(served.url) as relay:
        offered = await relay.tasks.offer("iterates", TITLE, max_attempts=1)
        work = asyncio.create_task(first.serve(relay))
        ended = await relay.tasks.result(offered["id"], within=PATIENCE)
        first.stop()
        await work
    assert ended["status"] == "failed"
