"""Turns: a process works on a few requests of each client at a time; the client's further requests wait (DESIGN 13.3).

All clients of a process share its event loop. Without turns, a hundred requests of some milliseconds each, sent at once
by one client, would all begin before the next request of anybody else. A client that is alone in using the process may
have any number of requests under way.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from time import monotonic
from typing import Any

from node.common.refusal import Refused
from node.share.fair_semaphore import FairSemaphore
from node.share.site import SITE_SHARE, site_of
from node.web.large_bodies import LargeBodySteps
from node.web.refusal_pacing import RefusalPacing
from node.web.throughput import Throughput

AGE_GROUP = "relay.age_group"
"""Scope key under which `node.overload.intake` stores the AgeGroup that counts the request."""

REQUESTS_AT_ONCE = 2
"""Requests of one client that a process works on at a time while others also use it. Most of the time of an
acknowledgement is spent waiting for Redis, so this still allows hundreds of requests a second."""

SITE_REQUESTS_AT_ONCE = 2 * REQUESTS_AT_ONCE
"""The same for one site. It is not SITE_SHARE times as many, because the requests of others wait for all that are under
way, and sixteen bodies of 1 MiB take a third of a second."""

MAX_WAITING_TURNS = 512
"""Requests of one client that may wait for their turn in one process; a site may have SITE_SHARE times as many. The
number of connections does not bound them: a client may disconnect before its request begins, and another one may use
its connection."""

MAX_WAITING_TURNS_IN_ALL = 8192
"""Requests of all clients that may wait for their turn in one process."""

SHARED_SECONDS = 1.0
"""Time after a request of another client during which no client counts as alone in using the process."""


class ClientTurns:
    """The turns of all clients of one process."""

    def __init__(self, throughput: Throughput) -> None:
        self.throughput = throughput
        # No limit on requests under way in all, and none on waiting ones: `check_room` limits those.
        self.clients = FairSemaphore(sys.maxsize, each=REQUESTS_AT_ONCE, waiting=sys.maxsize)
        self.sites = FairSemaphore(sys.maxsize, each=SITE_REQUESTS_AT_ONCE, waiting=sys.maxsize)
        """Places by site, for clients that are not their own site."""
        self._waiting: dict[str, int] = {}
        """Number of waiting requests by the site of their client, or by the client if it is its own site."""
        self._waiting_in_all = 0
        self._latest = ""
        """The client that sent the latest request."""
        self._other_at = float("-inf")
        """When a request last came from a different client than the request before it (monotonic seconds)."""
        self.body_steps = LargeBodySteps(self.is_shared)
        self.refusals = RefusalPacing(self.is_shared)

    def is_alone(self, client: str) -> bool:
        """Return whether the client, whose request has just come, is alone in using the process."""
        now = monotonic()
        if client != self._latest:
            if self._latest:
                self._other_at = now
            self._latest = client
        return now - self._other_at >= SHARED_SECONDS

    def is_shared(self) -> bool:
        """Return whether several clients have used the process within SHARED_SECONDS."""
        return monotonic() - self._other_at < SHARED_SECONDS

    def check_room(self, name: str, most: int) -> None:
        """Raise Refused `limit.waiting` if `most` requests of this client or site wait already, or too many in all."""
        if self._waiting.get(name, 0) >= most or self._waiting_in_all >= MAX_WAITING_TURNS_IN_ALL:
            raise Refused("limit.waiting", retry_after=1.0, most=most)

    @contextmanager
    def waiting(self, name: str) -> Generator[None]:
        """Count a request of this client or site as waiting while the block runs."""
        self._waiting[name] = self._waiting.get(name, 0) + 1
        self._waiting_in_all += 1
        try:
            yield
        finally:
            self._waiting_in_all -= 1
            if left := self._waiting.pop(name) - 1:
                self._waiting[name] = left


class RequestTurn:
    """The turn of one request."""

    __slots__ = ("_client", "_scope", "_site", "_turns", "_under_way")

    def __init__(self, turns: ClientTurns, client: str, scope: Mapping[str, Any]) -> None:
        self._turns = turns
        self._client = client
        self._scope = scope
        self._site = site_of(client) if ":" in client else ""
        self._under_way = False

    def begin_now(self) -> bool:
        """Begin if this request need not wait for others. Return whether it is under way.

        Raises Refused `limit.waiting` if too many requests wait already.
        """
        if self._under_way:  # it began before the router looked for its handler
            return True
        turns = self._turns
        clients = turns.clients
        if turns.is_alone(self._client):
            clients.take(self._client)
            if self._site:
                turns.sites.take(self._site)
            self._under_way = True
            return True
        if not turns.throughput.pause(self._client) and clients.enter_now(self._client):
            if not self._site or turns.sites.enter_now(self._site):
                turns.throughput.add_request(self._client)
                self._under_way = True
                return True
            clients.leave(self._client)
        turns.check_room(self._site or self._client, MAX_WAITING_TURNS * (SITE_SHARE if self._site else 1))
        return False

    async def begin(self) -> None:
        """Begin as soon as the client and its site have few enough requests under way."""
        with self._turns.waiting(self._site or self._client), self._inactive():
            await self._enter()
        self._turns.throughput.add_request(self._client)

    @asynccontextmanager
    async def pause(self) -> AsyncGenerator[None]:
        """Let other requests of the client take the turn during a block that only waits.

        Afterwards the request continues as soon as there is a turn for it. It is not refused, however many requests
        wait.
        """
        was_under_way = self.end()
        with self._inactive():
            yield
            if was_under_way:
                await self._enter()

    async def _enter(self) -> None:
        # A client that has moved many bytes pauses while it holds its own place, so that its other requests wait, too,
        # but before it takes a place of its site.
        with ExitStack() as undo:
            await self._turns.clients.enter(self._client)
            undo.callback(self._turns.clients.leave, self._client)
            if pause := self._turns.throughput.pause(self._client):
                await asyncio.sleep(pause)
            if self._site:
                await self._turns.sites.enter(self._site)
            undo.pop_all()
        self._under_way = True

    async def before_step(self, size: int) -> None:
        """Let other requests run before a step that takes milliseconds, for a large body of `size` bytes.

        Raises Refused `store.busy` if many clients send large bodies.
        """
        with self._inactive():
            await self._turns.body_steps.wait(size)

    async def before_refusal(self) -> None:
        """End the turn, since the request is refused, and delay the refusal if its client gets many."""
        self.end()
        with self._inactive():
            if self._site:
                await self._turns.refusals.wait(self._site, SITE_SHARE)
            else:
                await self._turns.refusals.wait(self._client, 1)

    @contextmanager
    def _inactive(self) -> Generator[None]:
        """Count the request as inactive during a block that waits for a change or for other requests."""
        self.count_as_inactive(1)
        try:
            yield
        finally:
            self.count_as_inactive(-1)

    def count_as_inactive(self, change: int) -> None:
        """Tell admission control that the request is inactive, no work for the process (`change` 1), or active again
        (-1)."""
        age_group = self._scope.get(AGE_GROUP)
        if age_group is not None:
            age_group.inactive += change

    def end(self) -> bool:
        """End the turn. Return whether the request was under way."""
        was_under_way, self._under_way = self._under_way, False
        if was_under_way:
            if self._site:
                self._turns.sites.leave(self._site)
            self._turns.clients.leave(self._client)
        return was_under_way
