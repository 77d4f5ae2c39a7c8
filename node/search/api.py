"""POST /api/v1/board/search (SPEC 4.4)."""

from functools import partial

from node.search.model import Hits, SearchQuery
from node.search.service import Search
from node.web.http import Request, Response, json_response
from node.web.json import read_json
from node.web.limits import Limiter
from node.web.route import Operation, Route, routes_of
from node.web.work import WorkLimit

REFUSALS = ("limit.work", "limit.waiting")
"""How a search is refused, beside its limit."""


class LimitedSearch:
    """Searches, each of which counts against its client's limit and is charged by the characters it looked at."""

    def __init__(self, search: Search, limiter: Limiter, work: WorkLimit) -> None:
        self._search = search
        self._limiter = limiter
        self._work = work

    async def search(self, request: Request, query: SearchQuery) -> Hits:
        """What a client finds. Raises Invalid, Refused, StoreUnavailable."""
        await self._work.admit(request)
        await self._limiter.take(request, "search")
        return await self._search.search(query, request.client, partial(self._work.charge, request.client))


class SearchApi:
    """Board search over HTTP."""

    def __init__(self, search: LimitedSearch, limiter: Limiter) -> None:
        self._search = search
        self._limiter = limiter

    @Operation("Find open threads by meaning or text", body=SearchQuery, answers=Hits, errors=REFUSALS, limit="search")
    async def search_threads(self, request: Request) -> Response:
        """Threads by meaning or text, best first."""
        async with self._limiter.permit(request, "search"):  # so that a malformed query counts, too
            query = await read_json(request, SearchQuery)
        return json_response(await self._search.search(request, query))

    def routes(self) -> tuple[Route, ...]:
        """SPEC 4.4."""
        return routes_of(
            "board",
            ("POST", "/api/v1/board/search", self.search_threads),
        )
