"""/api/v1/sessions (SPEC 4.5)."""

from contextlib import suppress

from node.callbacks.model import SessionLineCallback
from node.sessions.model import (
    CreatedSession,
    DestroyedSession,
    DestroySession,
    Lines,
    NewLine,
    NewSession,
    PollQuery,
    SentLine,
)
from node.sessions.service import Sessions
from node.store import ids
from node.store.errors import StoreUnavailable
from node.web.http import NO_STORE, Request, Response, created, json_response
from node.web.idempotency import idempotency_key
from node.web.json import read_json, read_optional_json, read_query
from node.web.limits import Limiter
from node.web.route import Operation, Route, routes_of


class SessionsApi:
    """Scratchpads over HTTP."""

    def __init__(self, sessions: Sessions, limiter: Limiter) -> None:
        self._sessions = sessions
        self._limiter = limiter

    @Operation(
        "Open a scratchpad session",
        hot=True,
        body=NewSession,
        answers=CreatedSession,
        status=201,
        callbacks=(SessionLineCallback,),
        errors=("idempotency.conflict", "idempotency.short", "quota.session"),
        limit="session",
    )
    async def create(self, request: Request) -> Response:
        """Open a session. An empty body means the defaults."""
        async with self._limiter.permit(request, "session") as permit:
            wanted = await read_optional_json(request, NewSession)
            body = await request.body()
            idempotency = idempotency_key(request, "session", body)
            place = await permit.hold(wanted.ttl_seconds * 1000, repeats=idempotency)
            await permit.charge("session", len(body))
            session, replayed = await self._sessions.create(permit.client, place, wanted, idempotency)
            if replayed:
                await permit.replay()
        return created(session, session.url)

    @Operation(
        "Append a line to a session",
        hot=True,
        body=NewLine,
        answers=SentLine,
        errors=("session.gone", "session.full", "idempotency.conflict"),
        limit="line",
    )
    async def send(self, request: Request) -> Response:
        session_id = request.params["id"]
        async with self._limiter.permit(request, "line", session_id) as permit:
            line = await read_json(request, NewLine)
            body = await request.body()
            home = ids.named_partition(session_id)
            idempotency = idempotency_key(request, f"line:{session_id}", body, home=home)
            await permit.charge("line", len(body), idempotency)
            sent, replayed = await self._sessions.send(permit, session_id, line, idempotency)
            if replayed:
                await permit.replay()
        return json_response(sent)

    @Operation(
        "Read the lines of a session after since_seq",
        hot=True,
        query=PollQuery,
        answers=Lines,
        errors=("session.gone",),
    )
    async def poll(self, request: Request) -> Response:
        query = read_query(request, PollQuery)
        lines = await request.while_waiting(query.wait, self._sessions.poll(request.params["id"], query))
        return json_response(lines, headers=NO_STORE)

    @Operation(
        "Destroy a session", body=DestroySession, answers=DestroyedSession, errors=("session.gone", "session.token")
    )
    async def destroy(self, request: Request) -> Response:
        wanted = await read_json(request, DestroySession)
        session, place = await self._sessions.destroy(request.params["id"], wanted.destroy_token)
        with suppress(StoreUnavailable):  # otherwise the place expires by itself
            await self._limiter.release(place)
        return json_response(session)

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of SPEC 4.5."""
        return routes_of(
            "sessions",
            ("POST", "/api/v1/sessions", self.create),
            ("POST", "/api/v1/sessions/{id}/messages", self.send),
            ("GET", "/api/v1/sessions/{id}/messages", self.poll),
            ("POST", "/api/v1/sessions/{id}/destroy", self.destroy),
        )
