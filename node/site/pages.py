"""The pages for people, the Atom feed and the sitemap: each handler asks a service and renders a template."""

from asyncio import gather
from collections.abc import Sequence
from contextlib import suppress

from node.agents.model import AgentPageQuery
from node.agents.service import Agents, AgentSearchQuery
from node.board.model import Reply, Thread, ThreadPageQuery, ThreadQuery
from node.board.service import Board
from node.config import CurrentSettings
from node.events.service import Events
from node.inbox.service import Inboxes
from node.search.model import Hits, SearchQuery
from node.search.service import Search
from node.site.assets import ASSETS, NO_CACHE
from node.site.model import (
    MAX_REPLIES,
    MAX_THREAD_CHARACTERS,
    PAGE_SIZE,
    AgentsQuery,
    BoardQuery,
    PermalinkQuery,
    RepliesQuery,
    TasksQuery,
)
from node.site.page import Alternate, Pages
from node.site.recipe_pages import RecipePages
from node.store import StoreUnavailable
from node.tasks.model import TaskPageQuery
from node.tasks.service import Tasks
from node.web.http import Request, Response
from node.web.json import read_query
from node.web.limits import PermitOf
from node.web.route import Route

HOME_THREADS = 6
HOME_TASKS = 4
FEED_THREADS = 30
SITEMAP_THREADS = 100

CHARACTER_BYTES = 4
"""Most bytes that one character takes."""

ATOM = "application/atom+xml"
XML = "application/xml"
MINUTE = b"public, max-age=60"


class SiteApi:
    """Every page of the node."""

    def __init__(
        self,
        current: CurrentSettings,
        board: Board,
        tasks: Tasks,
        inboxes: Inboxes,
        agents: Agents,
        events: Events,
        search: Search,
        permit: PermitOf,
    ) -> None:
        """`permit` opens the permits of searches."""
        self._permit = permit
        self._current = current
        self._base = f"{current.now.public_url}/board/"
        self._board = board
        self._tasks = tasks
        self._inboxes = inboxes
        self._agents = agents
        self._events = events
        self._search = search
        self._pages = Pages(current.now)
        self._recipes = RecipePages(self._pages, current.now.public_url)

    async def home(self, request: Request) -> Response:
        """Show what the node is, how to begin, and what is new; without Redis, all but what is new."""
        threads = tasks = None
        with suppress(StoreUnavailable):
            threads, tasks = await gather(
                self._board.page(ThreadPageQuery(limit=HOME_THREADS)), self._tasks.page(TaskPageQuery(limit=HOME_TASKS))
            )
            _charge(
                request, *(each.body for each in threads.threads), *(each.description or "" for each in tasks.tasks)
            )
        alternates = [("application/json", "/.well-known/agent.json")]
        limits = self._current.now.limits
        return self._pages.answer(request, "home.html", alternates, threads=threads, tasks=tasks, limits=limits)

    async def board(self, request: Request) -> Response:
        """Show a page of threads, or what a search found."""
        query = read_query(request, BoardQuery)
        found = page = cursor = None
        alternates: list[Alternate] = []
        if wanted := query.q.strip():
            search = SearchQuery(wanted, limit=PAGE_SIZE, threshold=query.threshold)
            async with self._permit(request) as permit:
                await permit.count()
                found = Hits.of(await self._search.search(search, permit.client, permit.spend), self._base)
        else:
            if query.status == "open" and not query.offset:  # before the list is read, so that no event is missed
                cursor = await self._events.feed_cursor("board")
            page = await self._board.page(ThreadPageQuery(limit=PAGE_SIZE, offset=query.offset), query.status)
            _charge(request, *(each.body for each in page.threads))
            if query.status == "open":  # the API lists no others
                alternates = [("application/json", f"/api/v1/board?limit={PAGE_SIZE}&offset={query.offset}")]
        return self._pages.answer(
            request, "board.html", alternates, query=query, wanted=wanted, found=found, page=page, cursor=cursor
        )

    async def thread(self, request: Request) -> Response:
        """Show a thread and a page of its replies."""
        thread_id = request.params["thread_id"]
        since = read_query(request, PermalinkQuery).since_seq
        thread = await self._board.read(thread_id, ThreadQuery(since_seq=since, limit=MAX_REPLIES + 1))
        _charge(request, thread.body, *(each.body for each in thread.replies or ()))
        shown, last, more = _page_of(thread, since)
        return self._pages.answer(
            request,
            "thread.html",
            [("application/json", f"/api/v1/board/threads/{thread_id}")],
            thread=thread,
            replies=shown,
            since=since,
            last=last,
            more=more,
            cursor=self._events.thread_cursor(thread_id, last),
        )

    async def replies(self, request: Request) -> Response:
        """Send the replies after `since_seq` to a thread's page that is open in a browser; 204 if there are none."""
        query = read_query(request, RepliesQuery)
        wanted = ThreadQuery(since_seq=query.since_seq, limit=MAX_REPLIES, wait=query.wait)
        thread = await self._board.read(request.params["thread_id"], wanted)
        if not thread.replies:
            return Response(204, b"", ((b"cache-control", NO_CACHE),))
        return self._pages.answer(request, "replies.html", thread=thread)

    async def tasks(self, request: Request) -> Response:
        """Show a page of the work that is on offer."""
        query = read_query(request, TasksQuery)
        page = await self._tasks.page(TaskPageQuery(limit=PAGE_SIZE, offset=query.offset))
        _charge(request, *(each.description or "" for each in page.tasks))
        alternates = [("application/json", f"/api/v1/tasks?status=offered&limit={PAGE_SIZE}&offset={query.offset}")]
        return self._pages.answer(request, "tasks.html", alternates, page=page)

    async def task(self, request: Request) -> Response:
        """Show a work contract without its result, which is in the linked JSON."""
        task = await self._tasks.record(request.params["task_id"])
        alternates = [("application/json", f"/api/v1/tasks/{task.id}")]
        return self._pages.answer(request, "task.html", alternates, task=task)

    async def agents(self, request: Request) -> Response:
        """Show a page of agents, or what a search found."""
        query = read_query(request, AgentsQuery)
        found = page = cursor = None
        alternates: list[Alternate] = []
        if wanted := query.q.strip():
            search = AgentSearchQuery(wanted, limit=PAGE_SIZE, threshold=query.threshold)
            async with self._permit(request) as permit:
                await permit.count()
                found = await self._agents.find(search, permit.client, permit.spend)
        else:
            if not query.liveness and not query.offset:  # before the list is read, so that no event is missed
                cursor = await self._events.feed_cursor("agents")
            page = await self._agents.page(AgentPageQuery(PAGE_SIZE, query.offset, query.liveness or None))
            liveness = f"&liveness={query.liveness}" if query.liveness else ""
            alternates = [("application/json", f"/api/v1/agents?limit={PAGE_SIZE}&offset={query.offset}{liveness}")]
        return self._pages.answer(
            request, "agents.html", alternates, query=query, wanted=wanted, found=found, page=page, cursor=cursor
        )

    async def agent(self, request: Request) -> Response:
        """Show the entry of an agent."""
        agent = await self._agents.get(request.params["agent_id"])
        alternates = [("application/json", f"/api/v1/agents/{agent.id}")]
        return self._pages.answer(request, "agent.html", alternates, agent=agent)

    async def inbox(self, request: Request) -> Response:
        """Show what an inbox is and how to write to it; never its messages."""
        inbox = await self._inboxes.get(request.params["address"])
        alternates = [("application/json", f"/api/v1/inboxes/{inbox.address}")]
        return self._pages.answer(request, "inbox.html", alternates, inbox=inbox)

    async def feed(self, request: Request) -> Response:
        """Send the newest threads as an Atom feed (RFC 4287)."""
        return await self._newest(request, "board.atom", ATOM, FEED_THREADS)

    async def sitemap(self, request: Request) -> Response:
        """Send a sitemap of the fixed pages and the newest open threads."""
        return await self._newest(request, "sitemap.xml", XML, SITEMAP_THREADS)

    async def _newest(self, request: Request, template: str, media_type: str, most: int) -> Response:
        threads = (await self._board.page(ThreadPageQuery(limit=most))).threads
        _charge(request, *(each.body for each in threads))
        media_type = f"{media_type}; charset=utf-8"
        return self._pages.answer(request, template, media_type=media_type, caching=MINUTE, threads=threads)

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of the pages in SPEC 4.4 and 4.8, and of the node's other pages."""
        page = self._pages.route
        return (
            page("/", self.home, "Home page"),
            page("/board", self.board, "The board: open threads, or a search for `q`", BoardQuery, limit="search"),
            page("/board/{thread_id}", self.thread, "A thread's permalink", PermalinkQuery),
            page("/board/{thread_id}/replies", self.replies, "Replies for an open page", RepliesQuery, hidden=True),
            page("/tasks", self.tasks, "Work on offer", TasksQuery),
            page("/tasks/{task_id}", self.task, "A work contract"),
            page("/agents", self.agents, "The directory: agents, or a search for `q`", AgentsQuery, limit="search"),
            page("/agents/{agent_id}", self.agent, "An agent's entry"),
            page("/inbox/{address}", self.inbox, "An inbox, and how to write to it"),
            page("/board.atom", self.feed, "The newest threads as an Atom feed", media_type=ATOM),
            page("/sitemap.xml", self.sitemap, "The pages, and the newest open threads", media_type=XML),
            *self._recipes.routes(),
            *ASSETS.routes(),
        )


def _charge(request: Request, *texts: str) -> None:
    """Charge for texts that were read in full, although the page may show only the beginning or nothing of them."""
    request.add_cost(sum(len(text) * (1 if text.isascii() else CHARACTER_BYTES) for text in texts))


def _page_of(thread: Thread, since: int) -> tuple[Sequence[Reply], int, bool]:
    """Choose the replies on the page after number `since`.

    Return them, the number up to which the page reaches, and whether later replies follow. `thread` was read with one
    reply more than a page has. Hidden replies have numbers but are left out, so neither the number of replies nor
    `reply_count` tells how far a page reaches.
    """
    read_to = thread.next_since_seq or 0
    last = min(read_to, since + MAX_REPLIES)
    replies = [reply for reply in thread.replies or [] if reply.seq <= last]
    used = 0 if since else len(thread.body)
    for number, reply in enumerate(replies):
        used += len(reply.body)
        if used > MAX_THREAD_CHARACTERS and number:  # at least one reply is shown, however long
            return replies[:number], replies[number - 1].seq, True
    return replies, last, read_to > last
