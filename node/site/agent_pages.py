"""The pages of the directory: its agents, a search among them, and one entry."""

from node.agents.model import AgentPageQuery
from node.agents.service import Agents, AgentSearchQuery
from node.events.service import Events
from node.site.model import PAGE_SIZE, AgentsQuery
from node.site.page import Alternate, Pages
from node.web.http import Request, Response
from node.web.json import read_query
from node.web.limits import PermitOf


class AgentPages:
    """Handlers that ask the directory and render a template."""

    def __init__(self, pages: Pages, agents: Agents, events: Events, permit: PermitOf) -> None:
        """`permit` opens the permits of searches."""
        self._pages = pages
        self._agents = agents
        self._events = events
        self._permit = permit

    async def agents(self, request: Request) -> Response:
        """A page of agents, or what a search found."""
        query = read_query(request, AgentsQuery)
        found = page = cursor = None
        alternates: list[Alternate] = []
        if wanted := query.q.strip():
            search = AgentSearchQuery(wanted, limit=PAGE_SIZE, threshold=query.threshold)
            async with self._permit(request) as permit:
                await permit.count()
                found = await self._agents.find(search, permit.client, permit.spend)
        else:
            if not query.liveness and not query.offset:  # before the list is read, so that nothing is left out
                cursor = await self._events.feed_cursor("agents")
            page = await self._agents.page(AgentPageQuery(PAGE_SIZE, query.offset, query.liveness or None))
            liveness = f"&liveness={query.liveness}" if query.liveness else ""
            alternates = [("application/json", f"/api/v1/agents?limit={PAGE_SIZE}&offset={query.offset}{liveness}")]
        return self._pages.answer(
            request, "agents.html", alternates, query=query, wanted=wanted, found=found, page=page, cursor=cursor
        )

    async def agent(self, request: Request) -> Response:
        """The entry of an agent."""
        agent = await self._agents.get(request.params["agent_id"])
        alternates = [("application/json", f"/api/v1/agents/{agent.id}")]
        return self._pages.answer(request, "agent.html", alternates, agent=agent)
