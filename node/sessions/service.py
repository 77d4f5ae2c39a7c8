"""The rules of sessions: scratchpads that live until their TTL ends or their opener ends them (SPEC 4.5)."""

import secrets

from node.callbacks.target_check import TargetCheck
from node.common.refusal import Refused
from node.common.timestamps import timestamp
from node.common.tokens import Tokens
from node.config import Settings
from node.sessions.model import CreatedSession, DestroyedSession, Lines, NewLine, NewSession, PollQuery, SentLine
from node.sessions.store import SessionStore
from node.share.origin import Attributed, ClientOrigin
from node.store import ids
from node.store.idempotency import IdempotencyKey
from node.store.limits import Quota, RateLimit
from node.text.lines import require_line, require_name, require_text
from node.text.readable import readable


class Sessions:
    """The service behind /api/v1/sessions."""

    def __init__(self, store: SessionStore, settings: Settings, tokens: Tokens, targets: TargetCheck) -> None:
        self._store = store
        self._tokens = tokens
        self._targets = targets
        self._base = f"{settings.public_url}/api/v1/sessions/"

    async def create(
        self, client: str, place: str, wanted: NewSession, idempotency: IdempotencyKey | None
    ) -> tuple[CreatedSession, bool]:
        """Open a session for a client. The second value says whether an earlier session was replayed.

        `place`: the session's place in the quota of its client; empty if it has none. Raises Invalid, Refused
        `idempotency.conflict`, `idempotency.short`, StoreUnavailable.
        """
        fields = {"epoch": secrets.token_hex(4)}
        if wanted.label:
            require_line("label", wanted.label)
            fields["label"] = wanted.label
        if wanted.callback_url is not None:
            fields |= await self._targets.accept(wanted.callback_url, client, idempotency)
        ttl_ms = wanted.ttl_seconds * 1000
        opened = await self._store.create(Quota("session", client, place), idempotency, ttl_ms, fields)
        if opened.replayed_at is not None and idempotency:
            idempotency.check_token(opened.expires_at - ttl_ms, opened.replayed_at)
        session = CreatedSession(
            session_id=opened.id,
            destroy_token=self._tokens.issue("destroy", opened.id),
            expires_at=timestamp(opened.expires_at),
            ttl_seconds=wanted.ttl_seconds,
            label=wanted.label or None,
            url=f"{self._base}{opened.id}/messages",
        )
        return session, opened.replayed_at is not None

    async def send(
        self, rate: RateLimit, session_id: str, line: NewLine, idempotency: IdempotencyKey | None
    ) -> tuple[SentLine, bool]:
        """Append a line. The second value says whether an earlier acknowledgement was replayed.

        Raises Invalid, Refused `session.gone`, `session.full`, `limit.exceeded`, `idempotency.conflict`,
        StoreUnavailable.
        """
        ids.require_id(session_id, "session.gone")
        body = readable(line.body)
        require_text("body", body)
        fields = ["body", body]
        if line.author:
            require_name("author", line.author)
            fields += ["author", line.author]
        seq, received_at, replayed = await self._store.send(rate, session_id, idempotency, len(body.encode()), fields)
        return SentLine(seq, session_id, timestamp(received_at)), replayed

    async def poll(self, session_id: str, query: PollQuery) -> Lines:
        """Return the lines after `since_seq`. If there are none, wait for one as long as the query asks.

        Raises Refused `session.gone`, StoreUnavailable.
        """
        ids.require_id(session_id, "session.gone")
        page = await self._store.wait(session_id, query.wait, query.since_seq, query.limit)
        if page is None:
            raise Refused("session.gone")
        # A poller ahead of the session has seen lines that a failover lost; it continues from the present end.
        seen = page.lines[-1].seq if page.lines else min(query.since_seq, page.last_seq)
        return Lines(page.lines, seen, timestamp(page.expires_at), page.label, page.epoch)

    async def require_opener(self, session_id: str, destroy_token: str | None) -> float:
        """Check that `destroy_token` is the token of the session. Returns the seconds that the session will live.

        Raises Refused `session.gone`, `callbacks.proof` if there is no token, `session.token` if it is wrong,
        StoreUnavailable.
        """
        ids.require_id(session_id, "session.gone")
        left = await self._store.seconds_left(session_id)
        if left is None:
            raise Refused("session.gone")
        if destroy_token is None:
            raise Refused("callbacks.proof")
        if not self._tokens.proves(destroy_token, "destroy", session_id):
            raise Refused("session.token")
        return left

    async def destroy(self, session_id: str, token: str) -> tuple[DestroyedSession, Quota]:
        """End a session. The second value is its place in the quota of its client, for the caller to release.

        Raises Refused `session.gone`, `session.token`, StoreUnavailable.
        """
        ids.require_id(session_id, "session.gone")
        if not self._tokens.proves(token, "destroy", session_id):
            raise Refused("session.gone" if await self._store.seconds_left(session_id) is None else "session.token")
        return DestroyedSession(session_id), await self.end(session_id)

    async def opened_by(self, origin: ClientOrigin) -> list[Attributed]:
        """Return the live sessions that were opened from `origin`, for the operator. Raises StoreUnavailable."""
        return await self._store.opened_by(origin)

    async def end(self, session_id: str) -> Quota:
        """End a session without its token. Returns its place in the quota of its client, for the caller to release.

        Raises Refused `session.gone`, StoreUnavailable.
        """
        ids.require_id(session_id, "session.gone")
        place = await self._store.destroy(session_id)
        if place is None:
            raise Refused("session.gone")
        return place
