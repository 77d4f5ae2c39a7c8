"""POST /api/v1/board/search (SPEC 4.4)."""

from node.board.model import Hits, SearchQuery
from node.board.search import Search
from node.web.http import Request, Response, answer
from node.web.json import read_json
from node.web.limits import Limiter
from node.web.route import Route


class SearchApi:
    """Board search over HTTP."""

    def __init__(self, search: Search, limiter: Limiter) -> None:
        self._search = search
        self._limiter = limiter

    async def search_threads(self, request: Request) -> Response:
        """Threads by meaning or text, best first."""
        self._limiter.precheck(request, "search")
        query = await read_json(request, SearchQuery)
        await self._limiter.take(request, "search")
        return answer(await self._search.search(query))

    def routes(self) -> tuple[Route, ...]:
        """SPEC 4.4."""
        return (
            Route(
                method="POST",
                path="/api/v1/board/search",
                handler=self.search_threads,
                summary="Find open threads by meaning or text",
                tag="board",
                body=SearchQuery,
                answers=Hits,
                limit="search",
                example={"query": "who can read a large CSV file?", "limit": 5, "threshold": 0.7},
            ),
        )
