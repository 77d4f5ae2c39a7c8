"""Scratchpads: opened for a while, written line by line, ended by whoever opened them (SPEC 4.5)."""

import secrets

from node.callbacks.policy import TargetPolicy
from node.common.refusal import Invalid, Refused
from node.common.timestamps import timestamp
from node.common.tokens import Tokens
from node.config import Limit, Settings
from node.sessions.model import (
    CreatedSession,
    DestroyedSession,
    Line,
    Lines,
    NewLine,
    NewSession,
    Owner,
    PollQuery,
    SentLine,
)
from node.sessions.store import LinePage, SessionStore, WrittenLine
from node.store import ids, keys
from node.store.idempotency import IdempotencyKey
from node.store.long_poll import wait_for_change
from node.text.lines import require_line, require_name
from node.text.readable import readable


class Sessions:
    """The service behind /api/v1/sessions."""

    def __init__(self, store: SessionStore, settings: Settings, tokens: Tokens, targets: TargetPolicy) -> None:
        self._store = store
        self._tokens = tokens
        self._targets = targets
        self._base = f"{settings.public_url}/api/v1/sessions/"

    async def create(
        self, wanted: NewSession, idempotency: IdempotencyKey | None, owner: Owner
    ) -> tuple[CreatedSession, bool]:
        """Open a session; the second value says whether it is an earlier one, answered again.

        Raises Invalid, Refused `idempotency.conflict`, `idempotency.short`, StoreUnavailable.
        """
        fields = ["epoch", secrets.token_hex(4)]
        if owner.held:
            fields += ["client", owner.client, "held", owner.held]
        if wanted.label:
            require_line("label", wanted.label)
            fields += ["label", wanted.label]
        if wanted.callback_url is not None:
            kept = await self._targets.accept(wanted.callback_url, owner.client)
            fields += [part for pair in kept.items() for part in pair]
        life = wanted.ttl_seconds * 1000
        opened = await self._store.create(idempotency, life, fields)
        if opened.kind == "conflict":
            raise Refused("idempotency.conflict")
        if opened.kind == "replayed" and idempotency:
            idempotency.check_token(opened.expires_at - life, opened.now)
        session = CreatedSession(
            session_id=opened.id,
            destroy_token=self._tokens.issue("destroy", opened.id),
            expires_at=timestamp(opened.expires_at),
            ttl_seconds=wanted.ttl_seconds,
            label=wanted.label or None,
            url=f"{self._base}{opened.id}/messages",
        )
        return session, opened.kind == "replayed"

    async def send(
        self, session_id: str, client: str, limit: Limit, line: NewLine, idempotency: IdempotencyKey | None
    ) -> WrittenLine:
        """Append a line. Raises Invalid, Refused `session.gone`, StoreUnavailable.

        The caller acts on the outcome: `limited`, `full` and `conflict` are refused.
        """
        if not ids.is_id(session_id):
            raise Refused("session.gone")
        body = readable(line.body)
        if not body.strip():
            raise Invalid.field("body", "body", msg="must hold more than white space")
        fields = ["body", body]
        if line.author:
            require_name("author", line.author)
            fields += ["author", line.author]
        sent = await self._store.send(session_id, client, limit, idempotency, len(body.encode()), fields)
        if sent.kind == "gone":
            raise Refused("session.gone")
        return sent

    def acknowledge(self, session_id: str, sent: WrittenLine) -> SentLine:
        """The acknowledgement of a line that was kept."""
        return SentLine(sent.seq, session_id, timestamp(sent.received_at))

    async def poll(self, session_id: str, query: PollQuery) -> Lines:
        """Lines after `since_seq`, waiting for one if asked to, while the session lives.

        Raises Refused `session.gone`, StoreUnavailable.
        """
        if not ids.is_id(session_id):
            raise Refused("session.gone")

        async def read() -> LinePage | None:
            return await self._store.poll(session_id, query.since_seq, query.limit)

        page = await wait_for_change(
            self._store.wakeups,
            keys.session(session_id),
            query.wait,
            read,
            lambda page: page is None or bool(page.lines),
            lambda page: (page.left + 1) / 1000 if page else 0,
        )
        if page is None:
            raise Refused("session.gone")
        # A poller that is ahead of the session has seen lines that a failover lost: it starts over at the end.
        seen = page.lines[-1][0] if page.lines else min(query.since_seq, page.last)
        return Lines([_line(*line) for line in page.lines], seen, timestamp(page.expires_at), page.label, page.epoch)

    async def destroy(self, session_id: str, token: str) -> tuple[DestroyedSession, Owner]:
        """End the session; whom it counted for. Raises Refused `session.gone`, `session.token`, StoreUnavailable."""
        if not ids.is_id(session_id):
            raise Refused("session.gone")
        if not self._tokens.proves(token, "destroy", session_id):
            raise Refused("session.token" if await self._store.exists(session_id) else "session.gone")
        owner = await self._store.destroy(session_id)
        if owner is None:
            raise Refused("session.gone")
        return DestroyedSession(session_id), owner


def _line(seq: int, fields: dict[bytes, bytes]) -> Line:
    author = fields.get(b"author")
    return Line(seq, fields[b"body"].decode(), author.decode() if author else None, timestamp(int(fields[b"at"])))
