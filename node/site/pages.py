"""The pages that people see, and what feeds read. Handlers call services and render; they keep nothing."""

from asyncio import gather
from collections.abc import Sequence
from contextlib import suppress

from node.board.model import Reply, Thread, ThreadPage, ThreadPageQuery, ThreadQuery
from node.board.service import Board
from node.config import Settings
from node.search.api import LimitedSearch
from node.search.model import SearchQuery
from node.site.assets import ASSETS
from node.site.model import PAGE_SIZE, REPLY_SIZE, THREAD_TEXT, BoardQuery, RepliesQuery, TasksQuery
from node.site.page import FRESH, PAGE_HEADERS, Pages
from node.store import StoreUnavailable
from node.tasks.model import TaskPage, TaskPageQuery, TaskQuery
from node.tasks.service import Tasks
from node.web.document import conditional, etag_of
from node.web.http import Handler, Request, Response
from node.web.json import read_query
from node.web.limits import Limiter
from node.web.route import Route

HOME_THREADS = 6
HOME_TASKS = 4
FEED_THREADS = 30
SITEMAP_THREADS = 100


class SiteApi:
    """Every page of the node."""

    def __init__(
        self, settings: Settings, board: Board, tasks: Tasks, limiter: Limiter, search: LimitedSearch | None = None
    ) -> None:
        self._settings = settings
        self._board = board
        self._tasks = tasks
        self._limiter = limiter
        self._search = search
        self._pages = Pages(settings, ASSETS)

    async def home(self, request: Request) -> Response:
        """What the node is, how to begin, and what is going on. Without the store, all but the last."""
        threads: ThreadPage | None = None
        tasks: TaskPage | None = None
        with suppress(StoreUnavailable):
            threads, tasks = await gather(
                self._board.page(ThreadPageQuery(limit=HOME_THREADS)), self._tasks.page(TaskPageQuery(limit=HOME_TASKS))
            )
        alternates = [("application/json", "/.well-known/agent.json")]
        return self._pages.answer(
            request, "home.html", alternates, threads=threads, tasks=tasks, limits=self._settings.limits
        )

    async def board(self, request: Request) -> Response:
        """A page of threads, or what a search found."""
        query = read_query(request, BoardQuery)
        wanted = query.q.strip()
        if self._search and wanted:
            asked = SearchQuery(wanted, limit=PAGE_SIZE, threshold=query.threshold)
            found = await self._search.search(request, asked)
            return self._pages.answer(
                request, "board.html", query=query, wanted=wanted, found=found, page=None, can_search=True
            )
        page = await self._board.page(ThreadPageQuery(limit=PAGE_SIZE, offset=query.offset), query.status)
        alternates = [("application/json", f"/api/v1/board?limit={PAGE_SIZE}&offset={query.offset}")]
        return self._pages.answer(
            request,
            "board.html",
            alternates if query.status == "open" else [],
            query=query,
            wanted="",
            found=None,
            page=page,
            can_search=self._search is not None,
        )

    async def thread(self, request: Request) -> Response:
        """A thread and a page of its replies."""
        thread_id = request.params["thread_id"]
        since = read_query(request, RepliesQuery).since_seq
        thread = await self._board.read(thread_id, ThreadQuery(since_seq=since, limit=REPLY_SIZE))
        shown = _as_many_as_fit(thread, 0 if since else len(thread.body))
        last = shown[-1].seq if shown else since
        return self._pages.answer(
            request,
            "thread.html",
            [("application/json", f"/api/v1/board/threads/{thread_id}")],
            thread=thread,
            replies=shown,
            since=since,
            last=last,
            more=last < thread.reply_count and bool(shown),
        )

    async def replies(self, request: Request) -> Response:
        """Replies that came since, for a page that is open: a list of them, or 204."""
        query = read_query(request, RepliesQuery)
        wanted = ThreadQuery(since_seq=query.since_seq, limit=REPLY_SIZE, wait=query.wait)
        thread = await self._board.read(request.params["thread_id"], wanted)
        if not thread.replies:
            return Response(204, b"", (FRESH,))
        return self._pages.answer(request, "replies.html", replies=thread.replies)

    async def tasks(self, request: Request) -> Response:
        """Work that is on offer."""
        query = read_query(request, TasksQuery)
        page = await self._tasks.page(TaskPageQuery(limit=PAGE_SIZE, offset=query.offset))
        alternates = [("application/json", f"/api/v1/tasks?status=offered&limit={PAGE_SIZE}&offset={query.offset}")]
        return self._pages.answer(request, "tasks.html", alternates, page=page)

    async def task(self, request: Request) -> Response:
        """A work contract; its result is left to the JSON."""
        task = await self._tasks.get(request.params["task_id"], TaskQuery())
        alternates = [("application/json", f"/api/v1/tasks/{task.id}")]
        return self._pages.answer(request, "task.html", alternates, task=task)

    async def feed(self, request: Request) -> Response:
        """The newest threads for feed readers (RFC 4287)."""
        page = await self._board.page(ThreadPageQuery(limit=FEED_THREADS))
        body = self._pages.render("board.atom", request.path, threads=page.threads)
        return _xml(request, body, b"application/atom+xml")

    async def sitemap(self, request: Request) -> Response:
        """The fixed pages and the newest open threads."""
        page = await self._board.page(ThreadPageQuery(limit=SITEMAP_THREADS))
        body = self._pages.render("sitemap.xml", request.path, threads=page.threads)
        return _xml(request, body, b"application/xml")

    def routes(self) -> tuple[Route, ...]:
        """The pages of SPEC 4.4 and 4.8, and ours beside them."""
        return (
            self._page("/", self.home, "Home page"),
            self._page("/board", self.board, "The board: open threads, or a search for `q`"),
            self._page("/board/{thread_id}", self.thread, "A thread's permalink"),
            self._page("/board/{thread_id}/replies", self.replies, "Replies for an open page", hidden=True),
            self._page("/tasks", self.tasks, "Work on offer"),
            self._page("/tasks/{task_id}", self.task, "A work contract"),
            self._page("/board.atom", self.feed, "The newest threads as an Atom feed", "application/atom+xml"),
            self._page("/sitemap.xml", self.sitemap, "The pages, and the newest open threads", "application/xml"),
            *ASSETS.routes(),
        )

    def _page(
        self, path: str, handler: Handler, summary: str, media_type: str = "text/html", *, hidden: bool = False
    ) -> Route:
        return Route(
            method="GET",
            path=path,
            handler=handler,
            summary=summary,
            tag="pages",
            media_type=media_type,
            fault=self._pages.failure if media_type == "text/html" else None,
            hidden=hidden,
        )


def _as_many_as_fit(thread: Thread, used: int) -> Sequence[Reply]:
    """The first replies, one at least, until the page holds THREAD_TEXT characters."""
    replies = thread.replies or []
    for number, reply in enumerate(replies):
        used += len(reply.body)
        if used > THREAD_TEXT and number:
            return replies[:number]
    return replies


def _xml(request: Request, body: bytes, media_type: bytes) -> Response:
    tag = etag_of(body)
    headers = (
        (b"content-type", media_type + b"; charset=utf-8"),
        (b"cache-control", b"public, max-age=60"),
        (b"etag", tag.encode()),
        *PAGE_HEADERS,
    )
    return conditional(request, body, headers, tag)
