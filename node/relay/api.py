"""POST /api/v1/relay, POST /api/v1/wire/stream, GET /api/v1/relay/{id} (SPEC 4.1, 4.8)."""

from collections.abc import Awaitable

from msgspec import UNSET

from node.callbacks.model import RelayReplyCallback
from node.common.cohort import next_stage
from node.common.refusal import Refused
from node.relay.model import Acknowledgement, Buffered, ReadQuery, RelayMessage
from node.relay.service import Relay
from node.store import ids
from node.web.http import NO_STORE, Request, Response, json_response
from node.web.idempotency import idempotency_key
from node.web.json import decode_in_steps, media_type, read_query
from node.web.limits import Limiter
from node.web.route import Operation, OtherAnswer, Route, routes_of

ACKNOWLEDGED = (
    "Acknowledged. An empty body means that the message was taken for a loop and not kept: it was the third equal "
    "message of this client within a minute, had passed this node before, or was a callback."
)

SILENCED = Response(200, b"", ((b"content-type", b"text/plain"),))
EMPTY_ANSWER = (OtherAnswer("text/plain", None),)

TEXT_PREFIX = b"text:"
"""Prefix of a text body when bodies are compared under an Idempotency-Key. No JSON begins with it, so the same bytes
sent as text and as JSON are different requests."""


class RelayApi:
    """The relay over HTTP."""

    def __init__(self, relay: Relay, limiter: Limiter) -> None:
        self._relay = relay
        self._limiter = limiter

    @Operation(
        "Relay a message: a JSON object or plain English text",
        hot=True,
        body=RelayMessage,
        text_body=True,
        answers=Acknowledgement,
        also=EMPTY_ANSWER,
        success=ACKNOWLEDGED,
        callbacks=(RelayReplyCallback,),
        errors=("language.not_english", "body.too_large", "body.media_type", "body.binary", "idempotency.conflict"),
        limit="relay",
    )
    def post_message(self, request: Request) -> Awaitable[Response]:
        return self._accept(request, "relay")

    @Operation(
        "Ingest raw UTF-8 text of any form; it is kept off the board",
        text_body=True,
        any_type=True,
        answers=Acknowledgement,
        shows={"post_url": UNSET},
        also=EMPTY_ANSWER,
        success=ACKNOWLEDGED,
        errors=("language.not_english", "body.too_large", "body.binary", "idempotency.conflict"),
        limit="relay",
    )
    def post_stream(self, request: Request) -> Awaitable[Response]:
        return self._accept(request, "wire", is_any_text=True)

    @Operation(
        "Read a relayed message by its reference_id; the callback_url of a public message is not shown",
        query=ReadQuery,
        answers=Buffered,
        errors=("relay.unknown",),
    )
    async def get_message(self, request: Request) -> Response:
        read_query(request, ReadQuery)
        return json_response(await self._relay.read(request.params["reference_id"]), headers=NO_STORE)

    async def _accept(self, request: Request, operation: str, *, is_any_text: bool = False) -> Response:
        async with self._limiter.permit(request, "relay") as permit:
            raw = await request.body()
            via = ",".join(request.headers(b"via")) if b"via" in request.first_headers else None
            # Before judging, since the sender of a callback would take a refusal for a failure and retry.
            if self._relay.is_own_echo(via, is_callback=b"webhook-id" in request.first_headers):
                await permit.count()
                return SILENCED
            if is_any_text:
                payload = self._relay.judge_text(raw, public=False)
            elif _is_json(request):
                payload = self._relay.judge_object(raw, await decode_in_steps(request, raw, object))
            else:
                payload = self._relay.judge_text(raw, public=True)
            await next_stage()
            content = raw if payload.is_json else TEXT_PREFIX + raw
            idempotency = idempotency_key(request, operation, content, home=ids.home_of(request.client))
            await permit.charge("thread" if payload.public else "message", len(raw), idempotency)
            acknowledged, replayed = await self._relay.accept(permit, payload, idempotency)
            if replayed:
                await permit.replay()
            if acknowledged is None:
                await permit.keep_nothing()
                return SILENCED
        return json_response(acknowledged)

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of SPEC 4.1, and wire/stream of SPEC 4.8."""
        return routes_of(
            "relay",
            ("POST", "/api/v1/relay", self.post_message),
            ("GET", "/api/v1/relay/{reference_id}", self.get_message),
            ("POST", "/api/v1/wire/stream", self.post_stream),
        )


def _is_json(request: Request) -> bool:
    """Return whether the body is JSON; False for plain text. Raises Refused `body.media_type` for any other type."""
    kind = media_type(request)
    if kind not in ("application/json", "text/plain"):
        raise Refused("body.media_type", expected="application/json or text/plain")
    return kind == "application/json"
