"""What a worker does for its claims besides the work: renews leases, releases claims, follows submitted results."""

import asyncio
import math
from contextlib import suppress
from typing import cast

from relay_client.client import AsyncRelay
from relay_client.errors import RelayError
from relay_client.follow import PASSING, RETURN_PAUSE
from relay_client.tasks import OVER, ClaimedTask, TaskStatus

RENEWALS = 3  # of a lease within its duration, so that there is time for a retry
RELEASE_SECONDS = 3.0  # s that a release may take when the worker ends
FOLLOWED = 50
"""Maximum number of submitted contracts that wait for a review at a time. Each takes a waiting request, and transports
have at most a hundred connections."""
REVIEWED: tuple[TaskStatus, ...] = ("offered", "claimed", "in_progress", *OVER)
"""All statuses except `submitted`."""


class Submitted:
    """Follows contracts whose publishers review the result, and renews the leases of those that are rejected.

    Beyond FOLLOWED, the oldest that waits for its review is no longer followed: if its result is rejected, its lease
    ends the claim.
    """

    def __init__(self, relay: AsyncRelay) -> None:
        self._relay = relay
        self._followers: dict[str, asyncio.Task[None]] = {}
        self._rejected: dict[str, ClaimedTask] = {}

    @property
    def has_rejected(self) -> bool:
        """Whether there is a rejected contract to resume."""
        return bool(self._rejected)

    @property
    def follows(self) -> int:
        """Number of contracts that are followed, including those whose leases are renewed."""
        return len(self._followers)

    def follow(self, task: ClaimedTask) -> None:
        """Follow a contract whose result was submitted."""
        waiting = [each for each in self._followers if each not in self._rejected]
        if len(waiting) >= FOLLOWED:
            self._leave(waiting[0])
        self._followers[task["id"]] = asyncio.create_task(self._follow(task))

    def next_rejected(self) -> ClaimedTask | None:
        """Return a rejected contract to resume, and stop following it; None if there is none.

        Its `rejection` says why the result was rejected.
        """
        for task_id in self._rejected:
            self._leave(task_id)
            return self._rejected.pop(task_id)
        return None

    async def end(self) -> None:
        """Stop following, and release rejected contracts that were not resumed, so that others can claim them."""
        followers = list(self._followers.values())
        for task_id in list(self._followers):
            self._leave(task_id)
        rejected = list(self._rejected.values())
        self._rejected.clear()
        await asyncio.gather(*followers, *(release(self._relay, task) for task in rejected), return_exceptions=True)

    def _leave(self, task_id: str) -> None:
        if follower := self._followers.pop(task_id, None):
            follower.cancel()

    async def _follow(self, task: ClaimedTask) -> None:
        task_id = task["id"]
        with suppress(RelayError):  # such as NotFound, some time after the contract was over
            record = await self._relay.tasks.result(task_id, until=REVIEWED)
            if record["status"] == "in_progress" and record["attempt"] == task["attempt"]:
                again = cast("ClaimedTask", {**record, "claim_token": task["claim_token"]})
                self._rejected[task_id] = again
                await renew(self._relay, again)
                if again["lease_seconds"]:  # renewing has ended, so the claim is lost
                    del self._rejected[task_id]
        self._followers.pop(task_id, None)


async def renew(relay: AsyncRelay, task: ClaimedTask) -> None:
    """Extend the lease until cancelled, or until the claim is lost.

    A renewal that fails temporarily is retried soon. A third of a lease later, the shortest leases would have ended.
    """
    pause = math.inf
    while lease := task["lease_seconds"]:
        await asyncio.sleep(min(lease / RENEWALS, pause))
        try:
            await relay.tasks.extend(task["id"], task["claim_token"])
            pause = math.inf
        except PASSING:
            pause = RETURN_PAUSE
        except RelayError:
            return


async def release(relay: AsyncRelay, task: ClaimedTask) -> None:
    """Release a claim, if that can be done quickly."""
    with suppress(RelayError, asyncio.TimeoutError):  # otherwise the lease ends the claim
        await asyncio.wait_for(relay.tasks.release(task["id"], task["claim_token"]), RELEASE_SECONDS)
