"""Claims the next contract that fits a worker, and waits for one if there is none (the claim itself: SPEC 3.1)."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from node.common.refusal import Refused
from node.search.service import Charge
from node.store import Store, keys
from node.store.decoding import code_of
from node.store.errors import OutcomeUnknown, OutOfMemory, StoreBusy, StoreUnavailable
from node.store.idempotency import IdempotencyKey
from node.tasks import steps
from node.tasks.model import ClaimedTask, NextClaim
from node.tasks.offers.feed import Offer, WantedOffers
from node.tasks.offers.matching import OfferMatching
from node.tasks.offers.search import NearestOffers, OfferSearch
from node.tasks.service import Tasks
from node.text.lines import require_name, require_text

NextOffer = Callable[[float], Awaitable[Offer | None]]
"""Returns the next offer that fits, or None if there is none within that many seconds."""

INTENT_BYTES = 200
"""Bytes that an intent takes: the record of the contract that a request with an Idempotency-Key is about to claim."""

LOST = ("task.claimed", "task.paused", "task.state", "task.unknown")
"""Refusals of a claim after which another contract is tried."""


class ClaimsOfAny:
    """The service behind POST /api/v1/tasks/claim-next."""

    def __init__(
        self, store: Store, tasks: Tasks, matching: OfferMatching, search: OfferSearch, idempotency_ttl: int
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._matching = matching
        self._search = search
        self._idempotency_ms = idempotency_ttl * 1000

    async def claim(
        self,
        new: NextClaim,
        idempotency: IdempotencyKey | None,
        client: str,
        charge: Charge,
        on_intent: Callable[[], None] = lambda: None,
    ) -> tuple[ClaimedTask | None, bool]:
        """Claim a contract that fits. Returns it, or None when the time is up, and whether the same request had claimed
        it before.

        With an Idempotency-Key, each contract is recorded under the request's own id before it is claimed. So a request
        that is repeated after a lost answer gets the same claim, and no contract stays claimed without its worker
        knowing. `on_intent` is called before the first such record. A `query` is searched on the account of `client`,
        and `charge` is told the work of the search. Raises Invalid, Refused `idempotency.short`, `limit.waiting`,
        `task.state` if the contract that was claimed with the key is no longer claimed, StoreUnavailable.
        """
        require_text("assignee_id", new.assignee_id)
        require_name("assignee_id", new.assignee_id)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + new.wait
        request = idempotency.scope if idempotency else secrets.token_hex(16)
        earlier = intended = await self._intend(idempotency, "", "") if idempotency else ""
        if intended and (again := await self._again(intended, new, request, idempotency)):
            return again
        unavailable: StoreUnavailable | None = None
        async with self._offers(new, client, charge) as next_offer:
            while offer := await next_offer(deadline - loop.time()):
                task_id = offer.id
                if idempotency:
                    if intended == earlier:
                        on_intent()
                    # Another request with the same key may have recorded a contract before; then that one counts.
                    intended = task_id = await self._intend(idempotency, intended, offer.id)
                    if task_id != offer.id:
                        self._matching.offer(offer)
                try:
                    claimed = await self._claim(task_id, new, request, idempotency)
                except (OutcomeUnknown, OutOfMemory, StoreBusy):
                    raise
                except StoreUnavailable as error:  # other contracts may be on other servers
                    unavailable = error
                    continue
                if claimed:
                    return claimed
        if unavailable:
            raise unavailable
        # A request with the same key, whose client has perhaps gone without a word, may have got a contract meanwhile.
        if idempotency and (recorded := await self._intend(idempotency, "", "")) not in ("", intended):
            return await self._again(recorded, new, request, idempotency) or (None, False)
        return None, False

    @asynccontextmanager
    async def _offers(self, new: NextClaim, client: str, charge: Charge) -> AsyncGenerator[NextOffer]:
        """Yield a function that returns the next offer: the best match for a query, without one as offers come."""
        if new.query is not None:
            look = partial(self._search.nearest, new, new.query, client, charge)
            yield NearestOffers(self._search, client, look).next
            return
        wanted = WantedOffers(frozenset(new.skills), frozenset(new.publisher_ids))
        async with self._matching.waiter(wanted) as waiter:
            yield partial(self._matching.next, waiter)
            waiter.taken = None  # not reached if a claim raised: then the offer goes to another waiting worker

    async def _again(
        self, intended: str, new: NextClaim, request: str, idempotency: IdempotencyKey | None
    ) -> tuple[ClaimedTask, bool] | None:
        """Return the claim that the same request made or was about to make; None if another worker has the contract."""
        claimed = await self._claim(intended, new, request, idempotency)
        if claimed is None and await self._tasks.was_claimed_by(intended, request):
            raise Refused("task.state", status="no longer claimed with this Idempotency-Key")
        return claimed

    async def _claim(
        self, task_id: str, new: NextClaim, request: str, idempotency: IdempotencyKey | None
    ) -> tuple[ClaimedTask, bool] | None:
        try:
            return await self._tasks.claim_as(task_id, new.assignee_id, request, idempotency)
        except Refused as refused:
            if refused.code not in LOST:
                raise
            return None

    async def _intend(self, idempotency: IdempotencyKey, before: str, task_id: str) -> str:
        """Record the contract to be claimed if `before` is still the one recorded. Returns the one recorded now."""
        intending = steps.task_intend(
            intent=keys.idempotency(idempotency.partition, idempotency.scope),
            before=before,
            id=task_id,
            ttl=self._idempotency_ms,
        )
        return code_of(await self._store.run(intending))
