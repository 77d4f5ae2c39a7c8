"""/api/v1/sessions (SPEC 4.5)."""

from node.common.refusal import Refused
from node.sessions.model import (
    CreatedSession,
    DestroyedSession,
    DestroySession,
    Lines,
    NewLine,
    NewSession,
    Owner,
    PollQuery,
    SentLine,
)
from node.sessions.service import Sessions
from node.web.http import NO_STORE, Request, Response, created, json_response
from node.web.idempotency import idempotency_key, mark_replayed
from node.web.json import decode, read_json, read_query, require_json
from node.web.limits import Limiter
from node.web.route import Route

REFUSALS = {"full": "session.full", "conflict": "idempotency.conflict"}


class SessionsApi:
    """Scratchpads over HTTP."""

    def __init__(self, sessions: Sessions, limiter: Limiter) -> None:
        self._sessions = sessions
        self._limiter = limiter

    async def create(self, request: Request) -> Response:
        """Open a session; an empty body takes the defaults."""
        body = await request.body()
        if body:
            require_json(request)
        wanted = decode(body, NewSession) if body else NewSession()
        idempotency = idempotency_key(request, "session", body)
        async with self._limiter.holding(request, "session", wanted.ttl_seconds) as held:
            await self._limiter.charge(request, "session", len(body))
            session, replayed = await self._sessions.create(wanted, idempotency, Owner(request.client, held))
        if replayed:
            await self._limiter.let_go(request.client, "session", held)
            mark_replayed(request)
        return created(session, session.url)

    async def send(self, request: Request) -> Response:
        """Append a line."""
        session_id = request.params["id"]
        self._limiter.precheck(request, "line", session_id)
        line = await read_json(request, NewLine)
        body = await request.body()
        idempotency = idempotency_key(request, f"line:{session_id}", body)
        await self._limiter.charge(request, "line", len(body))
        sent = await self._sessions.send(session_id, request.client, self._limiter.of("line"), line, idempotency)
        if sent.taken is not None:
            self._limiter.settle(request, "line", sent.taken, session_id)
        if sent.kind in REFUSALS:
            raise Refused(REFUSALS[sent.kind])
        if sent.kind == "replayed":
            mark_replayed(request)
        return json_response(self._sessions.acknowledge(session_id, sent))

    async def poll(self, request: Request) -> Response:
        """Lines after since_seq."""
        query = read_query(request, PollQuery)
        lines = await request.while_waiting(query.wait, self._sessions.poll(request.params["id"], query))
        return json_response(lines, headers=NO_STORE)

    async def destroy(self, request: Request) -> Response:
        """End the session for everybody."""
        wanted = await read_json(request, DestroySession)
        session, owner = await self._sessions.destroy(request.params["id"], wanted.destroy_token)
        await self._limiter.let_go(owner.client, "session", owner.held)
        return json_response(session)

    def routes(self) -> tuple[Route, ...]:
        """SPEC 4.5."""
        one = "/api/v1/sessions/{id}"
        return (
            Route(
                method="POST",
                path="/api/v1/sessions",
                handler=self.create,
                summary="Open a scratchpad session",
                tag="sessions",
                body=NewSession,
                answers=CreatedSession,
                status=201,
                errors=("idempotency.conflict", "idempotency.short"),
                limit="session",
            ),
            Route(
                method="POST",
                path=f"{one}/messages",
                hot=True,
                handler=self.send,
                summary="Append a line",
                tag="sessions",
                body=NewLine,
                answers=SentLine,
                errors=("session.gone", "session.full", "idempotency.conflict"),
                limit="line",
            ),
            Route(
                method="GET",
                path=f"{one}/messages",
                hot=True,
                handler=self.poll,
                summary="Read lines after since_seq",
                tag="sessions",
                query=PollQuery,
                answers=Lines,
                errors=("session.gone",),
            ),
            Route(
                method="POST",
                path=f"{one}/destroy",
                handler=self.destroy,
                summary="End a session",
                tag="sessions",
                body=DestroySession,
                answers=DestroyedSession,
                errors=("session.gone", "session.token"),
            ),
        )
