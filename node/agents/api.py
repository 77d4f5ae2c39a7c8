"""/api/v1/agents (NETWORK 2)."""

from node.agents.hits import AgentHits, AgentSearchQuery
from node.agents.model import (
    CARD_LENGTH,
    MAX_SKILLS,
    Agent,
    AgentPage,
    AgentPageQuery,
    AgentQuery,
    ListedCard,
    NewAgent,
    RemovedAgent,
    SubmittedAgent,
)
from node.agents.service import Agents
from node.common.refusal import Invalid
from node.inbox.model import InboxProof
from node.share.cost import VECTOR_CHARACTERS
from node.store import ids
from node.web.http import Request, Response, json_response
from node.web.idempotency import idempotency_key
from node.web.json import read_json, read_query
from node.web.limits import Limiter, Permit, PermitOf
from node.web.route import WHOLE, Operation, Route, routes_of
from node.web.signature import Signatures

TOKEN = ("Authorization", "`Bearer` and the inbox_token of an inbox; or sign the request with a key instead")

PROVEN = ("inbox.proof", "inbox.token", "signature.invalid", "signature.replayed")


class AgentsApi:
    """The directory over HTTP."""

    def __init__(self, agents: Agents, limiter: Limiter, search: PermitOf, signatures: Signatures) -> None:
        self._agents = agents
        self._limiter = limiter
        self._search = search
        self._signatures = signatures

    @Operation(
        "List an agent in the directory, or renew its entry",
        body=NewAgent,
        headers=(TOKEN,),
        answers=SubmittedAgent,
        shows={"status": "checking", "expires_at": None},
        status=202,
        success="Listed, or being checked; others find it a moment later.",
        errors=("language.not_english", "inbox.unknown", "agents.host_full", "idempotency.conflict", *PROVEN),
        limit="agent",
    )
    async def register(self, request: Request) -> Response:
        async with self._limiter.permit(request, "agent") as permit:
            new = await read_json(request, NewAgent)
            if bool(new.card) == bool(new.url):
                raise Invalid.field("body", "url", msg="give either url or card")
            await permit.count()
            if new.card:
                listed, replayed = await self._list(request, permit, new.card)
            else:
                listed, replayed = await self._submit(request, permit, str(new.url))
            if replayed:
                await permit.replay()
        return json_response(listed, 202)

    @Operation(
        "Read the entry of an agent; with wait, wait until it is checked",
        query=AgentQuery,
        answers=Agent,
        errors=("agent.unknown",),
    )
    async def get(self, request: Request) -> Response:
        wait = read_query(request, AgentQuery).wait
        return json_response(await request.while_waiting(wait, self._agents.get(request.params["id"], wait)))

    @Operation(
        "List the agents of the directory, newest first", hot=True, query=AgentPageQuery, answers=AgentPage, shows=WHOLE
    )
    async def page(self, request: Request) -> Response:
        return Response(200, await self._agents.page_json(read_query(request, AgentPageQuery)))

    @Operation(
        "Find agents by what they can do",
        hot=True,
        body=AgentSearchQuery,
        answers=AgentHits,
        shows=WHOLE,
        errors=("limit.work", "limit.waiting"),
        limit="search",
    )
    async def find(self, request: Request) -> Response:
        async with self._search(request) as permit:
            query = await read_json(request, AgentSearchQuery)
            await permit.count()
            return json_response(await self._agents.find(query, permit.client, permit.spend))

    @Operation(
        "Remove the entry of an agent",
        headers=(TOKEN,),
        answers=RemovedAgent,
        errors=("agent.unknown", *PROVEN),
    )
    async def remove(self, request: Request) -> Response:
        proof = await self._proof(request)
        return json_response(await self._agents.remove(request.params["id"], proof))

    def routes(self) -> tuple[Route, ...]:
        """NETWORK 2."""
        return routes_of(
            "agents",
            ("POST", "/api/v1/agents", self.register),
            ("GET", "/api/v1/agents", self.page),
            ("POST", "/api/v1/agents/search", self.find),
            ("GET", "/api/v1/agents/{id}", self.get),
            ("DELETE", "/api/v1/agents/{id}", self.remove),
        )

    async def _list(self, request: Request, permit: Permit, card: ListedCard) -> tuple[SubmittedAgent, bool]:
        body = await request.body()
        proof = await self._proof(request)
        owner = self._agents.named(proof)
        idempotency = idempotency_key(request, "agents", body, owner, home=ids.partition_of(owner))
        await permit.charge("agent", len(body) + VECTOR_CHARACTERS * len(card.skills), idempotency)
        return await self._agents.register(permit.client, card, proof, idempotency)

    async def _submit(self, request: Request, permit: Permit, url: str) -> tuple[SubmittedAgent, bool]:
        target = self._agents.target(url)
        idempotency = idempotency_key(request, "agents", await request.body(), home=ids.partition_of(target.host))
        # The card is not known yet, so the largest one is charged.
        await permit.charge("agent", CARD_LENGTH + VECTOR_CHARACTERS * MAX_SKILLS, idempotency)
        return await self._agents.submit(permit.client, target, idempotency)

    async def _proof(self, request: Request) -> InboxProof:
        """Return the credentials of the request. Raises RefusedWithHeaders `signature.invalid`."""
        return InboxProof(*await self._signatures.credentials(request))
