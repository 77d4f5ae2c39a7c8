"""A2A operations on messages, and refusals of the operations that the node does not support (SPEC 4.2)."""

from node.a2a.documented import SendMessageBody
from node.a2a.errors import fault
from node.a2a.examples import ACKNOWLEDGED, MESSAGE
from node.a2a.model import SendMessageResponse
from node.a2a.refusal import A2AError, no_extended_card, no_streams
from node.a2a.request import A2A_MEDIA, JSON_MEDIA, check_version, read_message
from node.a2a.service import Messages
from node.store import ids
from node.web.accept import preferred
from node.web.http import Request, Response, json_response
from node.web.idempotency import idempotency_key
from node.web.json import media_type
from node.web.limits import Limiter
from node.web.route import Operation, OtherAnswer, Route, routes_of

NOT_SUPPORTED = "The operation is not supported."
"""OpenAPI description of the only status with which an unsupported operation answers."""
A2A_TYPE = (b"content-type", A2A_MEDIA.encode())


def negotiated(request: Request, value: object) -> Response:
    """Return a 200 answer in application/a2a+json if the client prefers that type, else in application/json.

    Without a preference in Accept, a client that sent application/a2a+json gets it back.
    """
    response = json_response(value)
    offered = (A2A_MEDIA, JSON_MEDIA) if media_type(request) == A2A_MEDIA else (JSON_MEDIA, A2A_MEDIA)
    if preferred(request.header(b"accept"), *offered) == A2A_MEDIA:
        response.headers = (A2A_TYPE,)
    return response


def in_a2a_media(kind: type) -> tuple[OtherAnswer]:
    """Document that an answer of this type is `negotiated`, and so may come as application/a2a+json."""
    return (OtherAnswer(A2A_MEDIA, kind),)


class A2AApi:
    """Handlers of message:send, and of the streams, push notifications and extended card that are refused."""

    def __init__(self, messages: Messages, limiter: Limiter) -> None:
        self._messages = messages
        self._limiter = limiter

    @Operation(
        "Send an A2A message; it is acknowledged as a completed task",
        hot=True,
        body=SendMessageBody,
        answers=SendMessageResponse,
        also=in_a2a_media(SendMessageResponse),
        shows=ACKNOWLEDGED,
        errors=("language.not_english", "body.media_type", "body.too_large", "idempotency.conflict"),
        limit="message",
        example={"message": MESSAGE},
    )
    async def send(self, request: Request) -> Response:
        async with self._limiter.permit(request, "message") as permit:
            received = await read_message(request)
            body = await request.body()
            idempotency = idempotency_key(request, "message", body, home=ids.home_of(request.client))
            await permit.charge("message", len(body), idempotency)
            response, replayed = await self._messages.send(received, permit, idempotency)
            if replayed:
                await permit.replay()
        return negotiated(request, response)

    @Operation("Streaming is reported as unsupported", status=400, success=NOT_SUPPORTED)
    async def refuse_stream(self, request: Request) -> Response:
        check_version(request)
        raise no_streams()

    @Operation("Push notifications are reported as unsupported", status=400, success=NOT_SUPPORTED)
    async def refuse_push(self, request: Request) -> Response:
        check_version(request)
        raise A2AError(
            "PUSH_NOTIFICATION_NOT_SUPPORTED",
            "Push notifications are not supported by this agent (capabilities.pushNotifications is false)",
        )

    @Operation("The extended card is reported as unsupported", status=400, success=NOT_SUPPORTED)
    async def refuse_card(self, request: Request) -> Response:
        check_version(request)
        raise no_extended_card()

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of SPEC 4.2, except those under /tasks that A2A clients share with readers of contracts."""
        configs = "/api/v1/tasks/{id}/pushNotificationConfigs"
        return routes_of(
            "a2a",
            ("POST", "/api/v1/message:send", self.send),
            ("POST", "/api/v1/message:stream", self.refuse_stream),
            ("GET", configs, self.refuse_push),
            ("POST", configs, self.refuse_push),
            ("GET", f"{configs}/{{config_id}}", self.refuse_push),
            ("DELETE", f"{configs}/{{config_id}}", self.refuse_push),
            ("GET", "/api/v1/extendedAgentCard", self.refuse_card),
            fault=fault,
        )
