"""A worker in one decorator: it claims contracts, renews their leases, and delivers the results of a function."""

import asyncio
import inspect
import logging
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from relay_client.claims import Submitted, release, renew
from relay_client.client import AsyncRelay
from relay_client.errors import (
    Conflict,
    InvalidAnswer,
    InvalidRequest,
    NotAllowed,
    NotFound,
    Refused,
    RelayError,
    UsageError,
)
from relay_client.follow import PASSING, RETURN_PAUSE, Lull
from relay_client.signals import signals
from relay_client.tasks import ClaimedTask, CompletedTask

T = TypeVar("T")
log = logging.getLogger(__name__)

CLAIM_WAIT = 5.0  # s that a claim waits for a contract
ANSWER_SECONDS = 2.0  # s that the answer may take beyond CLAIM_WAIT: a node that hangs delays a stop by 9 s in all
CODE = "worker.exception"
DELIVERY_SECONDS = 600.0  # s for delivering a result if the claim has no lease
DELIVERY_TRIES = 1000  # as many as time allows: the work is done, and delivery is idempotent
UNFIT = "result.unfit"
REASON_CHARACTERS = 2000
"""Maximum length of a failure message that the node accepts."""
CLAIM_LOST = (NotAllowed, NotFound, Conflict)


class TaskFailed(Exception):
    """Raised by a worker's function to fail its attempt. Code and message are public."""

    def __init__(self, code: str, message: str | None = None, *, retryable: bool = True) -> None:
        super().__init__(message or code)
        self.code = code
        self.message = message
        self.retryable = retryable


class TaskReleased(Exception):
    """Raised by a worker's function to give up its claim: others may claim the contract, and no attempt has failed."""


class Worker:
    """A worker around a function, as made by `@worker`."""

    def __init__(
        self,
        work: "Callable[[ClaimedTask], Any]",
        name: str,
        skills: Sequence[str],
        publisher_ids: Sequence[str] | None = None,
        query: str | None = None,
        threshold: float | None = None,
    ) -> None:
        self.work = work
        self.name = name
        self.skills = skills
        self.publisher_ids = publisher_ids
        self.query = query
        self.threshold = threshold
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unanswered: str | None = None

    def run(self, base_url: str) -> None:
        """Work until SIGTERM or SIGINT, and finish the work begun by then."""
        asyncio.run(self._run(base_url))

    def stop(self) -> None:
        """Claim nothing more, and finish the work that is begun. Any thread may call this."""
        if self._loop:
            self._loop.call_soon_threadsafe(self._stopping.set)
        else:  # not serving yet: `serve` will return at once
            self._stopping.set()

    async def serve(self, relay: AsyncRelay) -> None:
        """Work until `stop`, over your own connection.

        Raises Refused if the node rejects this worker, UsageError if the worker is serving already.
        """
        if self._loop:
            raise UsageError(
                "this worker serves already, and does one contract at a time: make a worker for each to be done at once"
            )
        self._loop = asyncio.get_running_loop()
        try:
            await self._serve(relay)
        finally:
            self._loop, self._stopping = None, asyncio.Event()  # the worker may serve again, even in another loop

    async def _serve(self, relay: AsyncRelay) -> None:
        lull = Lull()
        submitted = Submitted(relay)
        try:
            while not self._stopping.is_set():
                try:
                    pause = await self._turn(relay, submitted, lull)
                except (*PASSING, asyncio.TimeoutError, Conflict):  # Conflict: an unanswered claim has ended meanwhile
                    pause = RETURN_PAUSE
                if pause:
                    await self._rest(pause)
        finally:
            await asyncio.shield(self._end(relay, submitted))

    async def _turn(self, relay: AsyncRelay, submitted: Submitted, lull: Lull) -> float:
        """Resume one contract whose result was rejected, if there is one, then claim another. Returns seconds to rest.

        The worker alternates, so that no publisher keeps it busy by rejecting results.
        """
        if rejected := submitted.next_rejected():
            await self._attend(relay, rejected, submitted)
            if self._stopping.is_set():
                return 0.0
        began = relay.carrier.clock()
        wait = 0.0 if submitted.has_rejected else CLAIM_WAIT
        task = await self._claim(relay, wait)
        pause = lull.after(relay.carrier.clock() - began, wait, is_new=bool(task))
        if task and self._stopping.is_set():
            await release(relay, task)
        elif task:
            await self._attend(relay, task, submitted)
        return pause

    async def _claim(self, relay: AsyncRelay, wait: float) -> ClaimedTask | None:
        """Claim the next contract. If the last claim had no answer, repeat its Idempotency-Key.

        That claim may have got a contract, on which nobody would work otherwise.
        """
        key, self._unanswered = self._unanswered or secrets.token_urlsafe(24), None
        asked = relay.tasks.claim_next(
            self.name,
            skills=self.skills,
            publisher_ids=self.publisher_ids,
            query=self.query,
            threshold=self.threshold,
            wait=wait,
            key=key,
        )
        claim, stop = asyncio.ensure_future(asked), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({claim, stop}, return_when=asyncio.FIRST_COMPLETED)
            return await _within(wait + ANSWER_SECONDS, claim)  # a node that hangs does not delay a stop
        except (*PASSING, InvalidAnswer, asyncio.TimeoutError, asyncio.CancelledError):
            self._unanswered = key
            raise
        finally:
            claim.cancel()
            stop.cancel()

    async def _give_back(self, relay: AsyncRelay) -> None:
        """At the end, release the contract that a claim without an answer may have got, if that can be done quickly."""
        self._stopping.set()  # also when cancelled, so that the claim takes at most ANSWER_SECONDS
        if self._unanswered:
            with suppress(RelayError, asyncio.TimeoutError):
                if task := await self._claim(relay, 0.0):
                    await release(relay, task)
        self._unanswered = None

    async def _end(self, relay: AsyncRelay, submitted: Submitted) -> None:
        """Release all claims.

        A coroutine, to run as a task, since the event loop may cancel it when the loop ends. For a bare `gather`,
        asyncio would then log that its exception was never retrieved.
        """
        await asyncio.gather(self._give_back(relay), submitted.end())

    async def _rest(self, seconds: float) -> None:
        """Sleep, but return as soon as the worker must stop."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def until_signalled(self, relay: AsyncRelay) -> None:
        """`serve` until SIGTERM or SIGINT, and finish the work begun by then.

        Several workers of a process may do this at the same time: a signal stops all of them.
        """
        with signals.stopping(self.stop):
            await self.serve(relay)

    async def _run(self, base_url: str) -> None:
        async with AsyncRelay(base_url) as relay:
            await self.until_signalled(relay)

    async def _attend(self, relay: AsyncRelay, task: ClaimedTask, submitted: Submitted) -> None:
        """Work on one contract. If the work is cancelled or ends the worker, release the contract for others."""
        try:
            completed = await self._work_on(relay, task)
        except BaseException:  # such as SystemExit, which the user's function may raise
            await asyncio.shield(release(relay, task))
            raise
        if completed and completed["status"] == "submitted":
            submitted.follow(task)

    async def _work_on(self, relay: AsyncRelay, task: ClaimedTask) -> CompletedTask | None:
        """Run the function and deliver its result, unless the claim is lost. None if no result was delivered."""
        patient = relay.with_options(deadline=task["lease_seconds"] or DELIVERY_SECONDS, tries=DELIVERY_TRIES)
        renewing = asyncio.ensure_future(renew(relay, task))
        try:
            result = await self._call(task)
        except TaskReleased:
            step = release(relay, task)
        except TaskFailed as failed:
            step = _failed(patient, task, failed)
        except Exception as error:  # the user's function may raise anything
            log.exception("contract %s: the function failed", task["id"])
            step = _failed(patient, task, TaskFailed(CODE, type(error).__name__))  # the error's text may have secrets
        else:
            step = _delivered(patient, task, result)
        finally:
            renewing.cancel()
        try:
            return await step
        except CLAIM_LOST as lost:
            log.warning("contract %s: the claim is lost: %s", task["id"], lost)
            return None

    async def _call(self, task: ClaimedTask) -> Any:
        if inspect.iscoroutinefunction(self.work):
            return await self.work(task)
        result = await asyncio.to_thread(self._called, task)
        return await result if inspect.isawaitable(result) else result  # not `async def`, but it returned an awaitable

    def _called(self, task: ClaimedTask) -> Any:
        try:
            return self.work(task)
        except StopIteration as stopped:  # a future cannot hold it: the caller would wait for ever
            raise RuntimeError("the function raised StopIteration") from stopped


def worker(
    *,
    name: str,
    skills: Sequence[str] = (),
    publisher_ids: Sequence[str] | None = None,
    query: str | None = None,
    threshold: float | None = None,
) -> "Callable[[Callable[[ClaimedTask], Any]], Worker]":
    """Make a worker from a function that takes a contract and returns its result. It runs in a thread unless `async`.

    With a `query`, the worker takes contracts that match it with a score of `threshold` or more, best first.
    """
    return lambda work: Worker(work, name, skills, publisher_ids, query, threshold)


async def _within(seconds: float, task: "asyncio.Task[T]") -> T:
    """Return the result of a task. Raises TimeoutError. `asyncio.wait_for` loses a cancellation before Python 3.12."""
    await asyncio.wait({task}, timeout=seconds)
    if not task.done():
        raise asyncio.TimeoutError
    return task.result()


async def _delivered(relay: AsyncRelay, task: ClaimedTask, result: Any) -> CompletedTask | None:
    """Complete the contract. If the result is not JSON or the node refuses it, fail the attempt and return None."""
    try:
        completing = relay.tasks.complete(task["id"], task["claim_token"], result)
    except UsageError as error:
        log.warning("contract %s: %s", task["id"], error)
        await _failed(
            relay, task, TaskFailed(UNFIT, f"The result is not JSON ({type(error.__cause__ or error).__name__}).")
        )
        return None
    try:
        return await completing
    except (*CLAIM_LOST, *PASSING):
        raise
    except Refused as refused:
        log.warning("contract %s: the result is refused: %s", task["id"], refused)
        await _failed(relay, task, TaskFailed(UNFIT, str(refused.args[0])))
        return None


async def _failed(relay: AsyncRelay, task: ClaimedTask, failed: TaskFailed) -> None:
    """Fail the attempt, with a code and a message that the node accepts."""
    message = failed.message and _text(failed.message)[:REASON_CHARACTERS]
    is_retryable = bool(failed.retryable)
    fail = partial(relay.tasks.fail, task["id"], task["claim_token"], message=message, retryable=is_retryable)
    try:
        await fail(_text(failed.code))
    except InvalidRequest:  # the code is not one short line
        await fail(CODE)


def _text(given: object) -> str:
    """Return the text of a value, such as an exception.

    Lone surrogates, which stand for undecodable bytes in file names, are replaced.
    """
    return str(given).encode(errors="replace").decode()
