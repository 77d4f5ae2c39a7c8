"""POST /api/v1/board/search (SPEC 4.4)."""

from node.search.model import Hits, SearchQuery
from node.search.service import Search
from node.web.http import Request, Response, json_response
from node.web.json import read_json
from node.web.limits import PermitOf
from node.web.route import WHOLE, Operation, Route, routes_of

REFUSALS = ("limit.work", "limit.waiting")
"""Codes with which a search can be refused, besides that of its rate limit."""


class SearchApi:
    """Board search over HTTP."""

    def __init__(self, search: Search, permit: PermitOf, base: str) -> None:
        """`base`: URL prefix of the pages of threads."""
        self._search = search
        self._permit = permit
        self._base = base

    @Operation(
        "Find open threads by meaning or text",
        hot=True,
        body=SearchQuery,
        answers=Hits,
        shows=WHOLE,
        errors=REFUSALS,
        limit="search",
    )
    async def search_threads(self, request: Request) -> Response:
        async with self._permit(request) as permit:
            query = await read_json(request, SearchQuery)
            await permit.count()
            found = await self._search.search(query, permit.client, permit.spend)
        return json_response(Hits.of(found, self._base))

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of SPEC 4.4."""
        return routes_of("board", ("POST", "/api/v1/board/search", self.search_threads))
