"""The HTTP+JSON binding of the agents of inboxes: `/api/v1/inboxes/{address}/a2a` (NETWORK 1, A2A v1.0 §11)."""

from node.a2a.api import NOT_SUPPORTED, in_a2a_media, negotiated
from node.a2a.documented import InboxMessageBody
from node.a2a.errors import inbox_fault
from node.a2a.examples import ANSWERED, FOLLOWED, MESSAGE, PUSHED, SENT_TO_INBOX, TASKS, WITHDRAWN
from node.a2a.inboxes.calls import InboxCalls
from node.a2a.inboxes.push_config import DeletedPush, PushConfig, PushConfigs, SentPushConfig
from node.a2a.inboxes.pushes import PushConfigService
from node.a2a.inboxes.view import StreamResponse
from node.a2a.model import A2ATask, HistoryQuery, ListQuery, SendMessageResponse, TaskList
from node.a2a.refusal import no_extended_card
from node.a2a.request import check_media_type, check_version, history_length_of
from node.web.http import NO_STORE, Request, Response
from node.web.json import convert_query
from node.web.route import Operation, Route, routes_of

BASE = "/api/v1/inboxes/{address}/a2a"

REFUSED = ("inbox.unknown", "inbox.policy", "inbox.turn", "inbox.full", "idempotency.conflict", "signature.invalid")
EXAMPLE = {"message": MESSAGE, "configuration": {"returnImmediately": True}}


class InboxAgentApi:
    """The handlers of the HTTP+JSON binding."""

    def __init__(self, pushes: PushConfigService, calls: InboxCalls) -> None:
        self._pushes = pushes
        self._calls = calls

    @Operation(
        "Send an A2A message to an inbox, and wait up to 30 s for its owner's answer",
        body=InboxMessageBody,
        answers=SendMessageResponse,
        shows=SENT_TO_INBOX,
        also=in_a2a_media(SendMessageResponse),
        errors=REFUSED,
        limit="inbox_send",
        example=EXAMPLE,
    )
    async def send(self, request: Request) -> Response:
        _check_unlisted(request)
        check_media_type(request)
        return negotiated(request, await self._calls.send(request, await request.body()))

    @Operation(
        "Send an A2A message to an inbox, and follow its task",
        body=InboxMessageBody,
        answers=StreamResponse,
        shows=FOLLOWED,
        media_type="text/event-stream",
        errors=REFUSED,
        limit="inbox_send",
        example=EXAMPLE,
    )
    async def stream(self, request: Request) -> Response:
        check_version(request)
        check_media_type(request)
        return await self._calls.send_streaming(request, await request.body(), bytes)

    @Operation(
        "Read an A2A task of an inbox",
        query=HistoryQuery,
        answers=A2ATask,
        shows=ANSWERED,
        also=in_a2a_media(A2ATask),
    )
    async def get(self, request: Request) -> Response:
        _check_unlisted(request)
        length = history_length_of(request)
        return negotiated(request, await self._calls.get(request, request.params["id"], length))

    @Operation(
        "List the A2A tasks of a context; without contextId, the list is empty",
        query=ListQuery,
        answers=TaskList,
        shows=TASKS,
        also=in_a2a_media(TaskList),
    )
    async def page(self, request: Request) -> Response:
        _check_unlisted(request)
        query = convert_query(request.query(), ListQuery)
        return negotiated(request, await self._calls.page(request, query))

    @Operation(
        "Cancel an A2A task of an inbox by withdrawing its message",
        answers=A2ATask,
        shows=WITHDRAWN,
        also=in_a2a_media(A2ATask),
    )
    async def cancel(self, request: Request) -> Response:
        _check_unlisted(request)
        return negotiated(request, await self._calls.cancel(request, request.params["id"]))

    @Operation(
        "Follow an A2A task of an inbox until it is over",
        answers=StreamResponse,
        shows=FOLLOWED,
        media_type="text/event-stream",
        errors=("quota.stream",),
        limit="stream",
    )
    async def subscribe(self, request: Request) -> Response:
        check_version(request)
        return await self._calls.subscribe(request, request.params["id"], bytes)

    @Operation(
        "Create a push notification config: the events of an A2A task are sent to a webhook",
        body=SentPushConfig,
        answers=PushConfig,
        shows=PUSHED,
        also=in_a2a_media(PushConfig),
        errors=("task.unknown",),
        limit="inbox_send",
    )
    async def create_push(self, request: Request) -> Response:
        _check_unlisted(request)
        check_media_type(request)
        return negotiated(request, await self._calls.create_push(request, request.params["id"], await request.body()))

    @Operation(
        "List the push notification configs of an A2A task",
        answers=PushConfigs,
        shows={"configs": [PUSHED]},
        also=in_a2a_media(PushConfigs),
    )
    async def list_pushes(self, request: Request) -> Response:
        _check_unlisted(request)
        return negotiated(request, await self._pushes.list(request.params["address"], request.params["id"]))

    @Operation(
        "Read a push notification config of an A2A task",
        answers=PushConfig,
        shows=PUSHED,
        also=in_a2a_media(PushConfig),
    )
    async def get_push(self, request: Request) -> Response:
        _check_unlisted(request)
        address, task_id, config_id = (request.params[name] for name in ("address", "id", "config_id"))
        return negotiated(request, await self._pushes.get(address, task_id, config_id))

    @Operation(
        "Delete a push notification config of an A2A task",
        answers=DeletedPush,
        also=in_a2a_media(DeletedPush),
    )
    async def delete_push(self, request: Request) -> Response:
        check_version(request)
        address, task_id, config_id = (request.params[name] for name in ("address", "id", "config_id"))
        await self._pushes.delete(address, task_id, config_id)
        return negotiated(request, DeletedPush())

    @Operation("The extended card is reported as unsupported", status=400, success=NOT_SUPPORTED)
    async def refuse_card(self, request: Request) -> Response:
        check_version(request)
        raise no_extended_card()

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of NETWORK 1."""
        configs = f"{BASE}/tasks/{{id}}/pushNotificationConfigs"
        return routes_of(
            "inboxes",
            ("POST", f"{BASE}/message:send", self.send),
            ("POST", f"{BASE}/message:stream", self.stream),
            ("GET", f"{BASE}/tasks", self.page),
            ("GET", f"{BASE}/tasks/{{id}}", self.get),
            ("POST", f"{BASE}/tasks/{{id}}:cancel", self.cancel),
            # The text of the A2A specification says POST, the HTTP annotation in its proto file says GET.
            ("POST", f"{BASE}/tasks/{{id}}:subscribe", self.subscribe),
            ("GET", f"{BASE}/tasks/{{id}}:subscribe", self.subscribe),
            ("POST", configs, self.create_push),
            ("GET", configs, self.list_pushes),
            ("GET", f"{configs}/{{config_id}}", self.get_push),
            ("DELETE", f"{configs}/{{config_id}}", self.delete_push),
            ("GET", f"{BASE}/extendedAgentCard", self.refuse_card),
            fault=inbox_fault,
        )


def _check_unlisted(request: Request) -> None:
    """Check the A2A version, and forbid caching of the answer: a task is only for clients that know its id."""
    check_version(request)
    request.answer_headers += NO_STORE
