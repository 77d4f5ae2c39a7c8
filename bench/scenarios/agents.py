"""The directory: list agents, read entries and pages of the list, and search agents by meaning."""

import asyncio
import time

import msgspec

from bench.client import Call, request
from bench.entities import created, kept
from bench.lab import Lab
from bench.meter import is_being_indexed
from bench.payload import Template, encoded
from bench.scenario import Scenario
from bench.scenarios.search import INDEXED_WITHIN_SECONDS, MEANT, TOP, at_usual_rate
from bench.server import Server, Unfit, ask
from bench.topics import question, thread

AGENTS, AGENTS_FULL = 1000, 10_000
EACH = 20  # agents per inbox, the most that one may have

RENEW = "list an agent, or renew its entry, ceiling"
READ = "read an entry, ceiling"
PAGE = "a list of 20 agents, ceiling"
BY_MEANING = "search by meaning, {agents:,} agents of two skills"

_search = Template("POST", "/api/v1/agents/search")


class Owner(msgspec.Struct):
    """The fields of an inbox that the load needs."""

    inbox_token: str


class AgentHit(msgspec.Struct):
    """The fields of a search hit that the load needs."""

    agent_id: str
    mode: str


class AgentHits(msgspec.Struct):
    """The answer to a search."""

    hits: list[AgentHit]


class Directory:
    """Requests on agents, and the ids of those that are listed, by number."""

    def __init__(self, owners: list[Owner]) -> None:
        self.ids: dict[int, str] = {}
        self._owners = owners

    def list(self, number: int) -> Call:
        def answered(status: int, body: bytes) -> None:
            if status == 202:
                self.ids[number] = created(body).id

        return Call(self._wire(number), "", (202,), answered)

    def renew(self, number: int) -> Call:
        return Call(self._wire(number % len(self.ids)), "renew", (202,))

    def read(self, number: int) -> Call:
        return Call(request("GET", f"/api/v1/agents/{self.ids[number % len(self.ids)]}"), "read")

    async def indexed(self, node: Server, count: int) -> None:
        """Wait until all agents have vectors and there is only one index. Raises Unfit if that takes too long."""
        deadline = time.monotonic() + INDEXED_WITHIN_SECONDS
        for number in range(count - TOP, count):
            while not await self._found(node, number) or is_being_indexed(node, "agents"):
                if time.monotonic() > deadline:
                    raise Unfit(
                        f"agents are not found by meaning, or in two indexes, after {INDEXED_WITHIN_SECONDS:.0f} s"
                    )
                await asyncio.sleep(1.0)

    async def _found(self, node: Server, number: int) -> bool:
        _, body = await ask(node, _query(thread(number)[1]))
        hits = msgspec.json.decode(body, type=AgentHits).hits
        return any(hit.agent_id == self.ids[number] and hit.mode in MEANT for hit in hits)

    def _wire(self, number: int) -> bytes:
        owner = self._owners[number // EACH % len(self._owners)]
        body = encoded({"card": _card(number)})
        return request("POST", "/api/v1/agents", body, Authorization=f"Bearer {owner.inbox_token}")


async def run(lab: Lab) -> None:
    agents = AGENTS_FULL if lab.options.full else AGENTS
    async with lab.node() as node:
        owners: list[Owner] = []
        opening = request("POST", "/api/v1/inboxes")
        await lab.fill(node, lambda _: Call(opening, "", (201,), kept(owners, Owner)), agents // EACH, "inboxes")
        directory = Directory(owners)
        await lab.fill(node, directory.list, agents, "agents")
        await directory.indexed(node, agents)
        await at_usual_rate(lab, node, lambda number: _query(question(number)), BY_MEANING.format(agents=agents))
        if lab.options.rate is not None:
            return
        await lab.at_ceiling(node, lab.numbered(directory.read), READ)
        page = request("GET", "/api/v1/agents?limit=20")
        await lab.at_ceiling(node, lambda _: Call(page, "page"), PAGE)
        await lab.at_ceiling(node, lab.numbered(directory.renew), RENEW)


def _query(words: str) -> bytes:
    return _search(encoded({"query": words, "limit": TOP, "threshold": 0.0}))


def _card(number: int) -> dict[str, object]:
    """Return the card of an agent with two different skills."""
    texts = [thread(number), thread(number + AGENTS_FULL)]
    skills = [{"name": title[:200], "description": body[:2000], "tags": ["bench"]} for title, body in texts]
    return {"name": f"Desk {number}", "description": "Helps people who have such a thing.", "skills": skills}


SCENARIO = Scenario("agents", "list agents in the directory, read them, and search them by meaning", run)
