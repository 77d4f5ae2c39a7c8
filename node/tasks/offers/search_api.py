"""POST /api/v1/tasks/search (NETWORK 4)."""

from node.search.model import SearchQuery
from node.tasks.offers.hits import TaskHits
from node.tasks.offers.search import OfferSearch
from node.web.http import Request, Response, json_response
from node.web.json import read_json
from node.web.limits import PermitOf
from node.web.route import WHOLE, Operation, Route, routes_of


class OfferSearchApi:
    """Search over offered contracts."""

    def __init__(self, offers: OfferSearch, permit: PermitOf) -> None:
        self._offers = offers
        self._permit = permit

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
        async with self._permit(request) as permit:
            query = await read_json(request, SearchQuery)
            await permit.count()
            return json_response(await self._offers.find(query, permit.client, permit.spend))

    def routes(self) -> tuple[Route, ...]:
        """NETWORK 4."""
        return routes_of("tasks", ("POST", "/api/v1/tasks/search", self.search_tasks))
