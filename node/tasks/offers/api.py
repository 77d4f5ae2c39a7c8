"""POST /api/v1/tasks/search and /claim-next (NETWORK 4)."""

from contextlib import AsyncExitStack
from functools import partial

from node.search.model import SearchQuery
from node.tasks import examples
from node.tasks.api import REPEATED_CLAIM, SHORT, named_in_body
from node.tasks.model import ClaimedTask, NextClaim
from node.tasks.offers.claim_next import INTENT_BYTES, ClaimsOfAny
from node.tasks.offers.hits import TaskHits
from node.tasks.offers.search import OfferSearch
from node.web.http import Disconnected, Request, Response, json_response
from node.web.idempotency import idempotency_key
from node.web.json import read_json
from node.web.limits import Limiter, PermitOf
from node.web.route import WHOLE, Operation, OtherAnswer, Route, routes_of


class OffersApi:
    """How workers find offered contracts, over HTTP."""

    def __init__(self, offers: OfferSearch, claims: ClaimsOfAny, limiter: Limiter, search: PermitOf) -> None:
        """`search` opens the permit of a search."""
        self._offers = offers
        self._claims = claims
        self._limiter = limiter
        self._search = search

    @Operation(
        "Find offered contracts by meaning or text",
        hot=True,
        body=SearchQuery,
        answers=TaskHits,
        shows=WHOLE,
        errors=("limit.work", "limit.waiting"),
        limit="search",
    )
    async def search_tasks(self, request: Request) -> Response:
        async with self._search(request) as permit:
            query = await read_json(request, SearchQuery)
            await permit.count()
            return json_response(await self._offers.find(query, permit.client, permit.spend))

    @Operation(
        "Claim an offered contract that fits; with wait, wait for one",
        hot=True,
        body=NextClaim,
        example={"assignee_id": "summary-agent", "skills": ["summarise"], "wait": 20},
        headers=(("Idempotency-Key", REPEATED_CLAIM),),
        answers=ClaimedTask,
        shows=examples.CLAIMED,
        also=(OtherAnswer("", None, 204, "No contract that fits could be claimed in time."),),
        errors=("task.state", SHORT, "limit.work", "limit.waiting"),
        limit="claim",
    )
    async def claim_next(self, request: Request) -> Response:
        """Claim the next contract whose skills are all among the worker's; with a query, the one that matches best.

        The request counts once, however many contracts it loses to faster workers. Repeated with its Idempotency-Key
        after a lost answer, it gets the same contract. With a query, it counts as a search, too.
        """
        async with self._limiter.permit(request, "claim") as permit:
            new = await read_json(request, NextClaim)
            await permit.count()
            await permit.charge("claim", len(await request.body()))
            idempotency = idempotency_key(request, "claim-next", b"", name=new.assignee_id, key=new.idempotency_key)
            keep_intent = partial(permit.keep, INTENT_BYTES)
            async with AsyncExitStack() as stack:
                searching = permit
                if new.query is not None:
                    searching = await stack.enter_async_context(self._search(request))
                    await searching.count()
                with named_in_body(new.idempotency_key):
                    claiming = self._claims.claim(new, idempotency, permit.client, searching.spend, keep_intent)
                    try:
                        task, replayed = await request.while_waiting(new.wait, claiming)
                    except Disconnected:  # nothing was claimed, unless the client left during a claim
                        await permit.keep_nothing()
                        raise
            if replayed:
                await permit.replay()
            elif task is None:
                await permit.keep_nothing()
        return json_response(task) if task else Response(204, b"", ())

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of NETWORK 4."""
        return routes_of(
            "tasks",
            ("POST", "/api/v1/tasks/search", self.search_tasks),
            ("POST", "/api/v1/tasks/claim-next", self.claim_next),
        )
