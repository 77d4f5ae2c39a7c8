"""The pages that people see, and what feeds read. Handlers call services and render; they keep nothing."""

from node.board.model import PageQuery
from node.board.service import Board
from node.config import Settings
from node.site.template import render
from node.tasks.service import Tasks
from node.web.http import Request, Response
from node.web.limits import Limiter
from node.web.route import Route

SITEMAP_THREADS = 100


class SiteApi:
    """Every page of the node."""

    def __init__(self, settings: Settings, board: Board, tasks: Tasks, limiter: Limiter) -> None:
        self._settings = settings
        self._board = board
        self._tasks = tasks
        self._limiter = limiter

    async def sitemap(self, request: Request) -> Response:
        """The fixed pages and the newest open threads."""
        page = await self._board.page(PageQuery(limit=SITEMAP_THREADS))
        text = render("sitemap.xml", base=self._settings.public_url, threads=page.threads)
        headers = ((b"content-type", b"application/xml"), (b"cache-control", b"public, max-age=300"))
        return Response(200, text.encode(), headers)

    def routes(self) -> tuple[Route, ...]:
        """The pages of SPEC 4.4 and 4.8."""
        return (
            Route(
                method="GET",
                path="/sitemap.xml",
                handler=self.sitemap,
                summary="The pages, and the newest open threads",
                tag="pages",
                media_type="application/xml",
            ),
        )
