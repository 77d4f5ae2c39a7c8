"""The paths under /api/v1/tasks that A2A clients and readers of work contracts share (DESIGN 8).

A client that sends `A2A-Version` or accepts application/a2a+json, as all official A2A clients do, gets a contract as an
A2A Task; every other client gets the contract itself. A list has contracts only if the query has a contract status or
the paging parameters of contracts. A message task is an A2A Task for every client.
"""

from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import msgspec

from node.a2a.api import NOT_SUPPORTED, in_a2a_media, negotiated
from node.a2a.documented import CancelBody, ListParameters, ReadParameters, SendMessageBody
from node.a2a.errors import fault
from node.a2a.examples import CANCELED, OFFERED
from node.a2a.model import A2ATask, HistoryQuery, ListQuery, Message, SendMessageResponse, TaskList
from node.a2a.offer import invalid_in, offer_of, refused_in
from node.a2a.proto_json import ALL_STATES
from node.a2a.query_checks import includes, listed, oldest_wanted
from node.a2a.refusal import A2AError, no_streams
from node.a2a.request import check_version, history_length_of, is_a2a, read_message
from node.a2a.service import Messages
from node.a2a.view import contract_as_task
from node.common.refusal import Invalid, Refused
from node.common.timestamps import milliseconds
from node.tasks.model import STATUSES, Cancellation, TaskPageQuery
from node.tasks.service import Tasks
from node.web.errors import response_to
from node.web.http import NO_STORE, Handler, Request, Response
from node.web.idempotency import idempotency_key
from node.web.json import convert_query, decode, name_parameters
from node.web.limits import Limiter
from node.web.route import Operation, OtherAnswer, Route, routes_of
from node.web.signature import Signatures

T = TypeVar("T")

LIST = "/api/v1/tasks"
READ = "/api/v1/tasks/{id}"
"""The shared paths."""

VARY = (b"vary", b"Accept, A2A-Version")
CONTRACT_QUERY = frozenset(TaskPageQuery.__struct_encode_fields__) - {"status"}
"""Parameters that only readers of contracts send."""
A2A_QUERY = frozenset(ListQuery.__struct_encode_fields__) - {"status"}
"""Parameters that only A2A clients send."""


class ShownToken(msgspec.Struct, rename="camel"):
    """The metadata of :cancel. A token that is not a string is ignored."""

    publisher_token: msgspec.Raw = msgspec.Raw(b"null")


class Cancel(msgspec.Struct):
    """The body of :cancel. Clients send it, an empty object, or no body."""

    metadata: ShownToken | None = None


def shared_fault(request: Request, failure: Exception) -> Response:
    """Return the answer to a failure of a shared path, in the form that its client reads."""
    if is_a2a(request) or isinstance(failure, A2AError):
        return fault(request, failure)
    return response_to(request, failure)


class SharedTasksApi:
    """Handlers of the shared paths, and of the A2A operations on contracts."""

    def __init__(
        self, messages: Messages, tasks: Tasks, contracts: Sequence[Route], limiter: Limiter, signatures: Signatures
    ) -> None:
        """`contracts`: the routes of contracts, two of which are shared with A2A clients."""
        self._messages = messages
        self._tasks = tasks
        self._contracts = {(route.method, route.path): route for route in contracts}
        self._list_contracts = self._contracts["GET", LIST].handler
        self._get_contract = self._contracts["GET", READ].handler
        self._limiter = limiter
        self._signatures = signatures

    async def list_tasks(self, request: Request) -> Response:
        """Answer with contracts if the query has a contract status or page, else with the A2A tasks of a context."""
        request.answer_headers.append(VARY)
        query = request.query()
        status = query.get("status", "")
        paged = bool(CONTRACT_QUERY & query.keys()) and not A2A_QUERY & query.keys()
        if status in STATUSES or (not status and paged and not is_a2a(request)):
            return await self._list_contracts(request)
        if status and status not in ALL_STATES:
            both = f"{', '.join(STATUSES)}, or for A2A tasks {', '.join(sorted(ALL_STATES))}"
            raise Invalid.field("query", "status", msg=f"Must be one of {both}")
        check_version(request)
        request.answer_headers += NO_STORE
        name_parameters(request, ListQuery)
        asked = convert_query(query, ListQuery)
        return negotiated(request, await self._with_contract(asked, await self._messages.page(asked, request.client)))

    async def get_task(self, request: Request) -> Response:
        """Answer with a message task as an A2A Task, or with a contract in its reader's form."""
        request.answer_headers.append(VARY)
        task_id = request.params["id"]
        length = history_length_of(request)
        if is_a2a(request):
            check_version(request)
            name_parameters(request, HistoryQuery)
            return negotiated(request, await self._task(request, task_id, length))
        try:
            return await self._get_contract(request)
        except Refused as refused:
            task = await self._message(request, task_id, length) if refused.code == "task.unknown" else None
            if task is None:
                raise
            name_parameters(request, HistoryQuery)
            return negotiated(request, task)

    @Operation(
        "Cancel a task",
        body=CancelBody,
        answers=A2ATask,
        shows=CANCELED,
        also=in_a2a_media(A2ATask),
        errors=("signature.invalid", "signature.replayed"),
    )
    async def cancel(self, request: Request) -> Response:
        """Cancel a contract. Its publisher shows the publisher token in the metadata, or signs with the offer's key."""
        check_version(request)
        return negotiated(request, await self._cancel(request, request.params["id"]))

    @Operation("Streaming is reported as unsupported", status=400, success=NOT_SUPPORTED)
    async def refuse_subscription(self, request: Request) -> Response:
        check_version(request)
        raise no_streams()

    @Operation(
        "Offer a work contract with an A2A message",
        body=SendMessageBody,
        answers=SendMessageResponse,
        also=in_a2a_media(SendMessageResponse),
        shows=OFFERED,
        errors=(
            "language.not_english",
            "idempotency.conflict",
            "idempotency.short",
            "task.unknown",
            "signature.invalid",
            "signature.replayed",
            "quota.task",
        ),
        limit="task",
        example={
            "message": {
                "messageId": "7f3b0c1e-6f0e-4f7e-9a56-0d2f1f5c9a11",
                "role": "ROLE_USER",
                "parts": [{"text": "Translate this memo into plain words. It has two pages."}],
                "metadata": {"publisherId": "agent-1"},
            }
        },
    )
    async def offer(self, request: Request) -> Response:
        async with self._limiter.permit(request, "task") as permit:
            received = await read_message(request)
            body = await request.body()
            idempotency = idempotency_key(request, "a2a-task", body)
            await permit.hold(repeats=idempotency)
            await permit.charge("task", len(body))
            await self._require_new(received.message)
            # The contract does not show the signed message itself, so its proof does not cover the body.
            signed = await self._signatures.of(request, ())
            try:
                contract, replayed = await self._tasks.create(offer_of(received), signed, idempotency, request.client)
            except Invalid as invalid:
                raise invalid_in(received, invalid) from None
            except Refused as refused:
                raise refused_in(received, refused) from None
            if replayed:
                await permit.replay()
        task = contract_as_task(contract, contract.publisher_token, received.history_length)
        return negotiated(request, SendMessageResponse(task=task))

    async def _require_new(self, message: Message) -> None:
        """Refuse an offer that names a task or a context. Raises A2AError, Invalid.

        Every contract has a new context of its own. A contract is public, so in another context it would publish that
        context's id, with which anybody could read the messages there.
        """
        if message.task_id is not None:
            await self._messages.check_task(message.task_id, message.context_id)
        if message.context_id is not None:
            why = "Must be omitted: a contract is public and gets a new context of its own"
            raise Invalid.field("body", "message", "contextId", msg=why)

    async def _task(self, request: Request, task_id: str, history_length: int | None) -> A2ATask:
        task = await self._message(request, task_id, history_length)
        return task or contract_as_task(await _found(task_id, self._tasks.get(task_id)), history_length=history_length)

    async def _message(self, request: Request, task_id: str, history_length: int | None) -> A2ATask | None:
        """Return a message task, or None. It is unlisted, unlike a contract, so the answer must not be cached."""
        task = await self._messages.get(task_id, history_length)
        if task:
            request.answer_headers += NO_STORE
        return task

    async def _with_contract(self, asked: ListQuery, found: TaskList) -> TaskList:
        """Add the contract whose context was asked for to `found`, a page of the messages in this context.

        The last page with room for it has it, however old it is; if no page has room, one more page follows. Its
        result, which may be large, is read only if it is shown.
        """
        task = await self._asked_for(asked, asked.context_id, with_result=False) if asked.context_id else None
        if task is None:
            return found
        found.total_size += 1
        is_last = not found.next_page_token
        if is_last and len(found.tasks) == asked.page_size:
            found.next_page_token = found.tasks[-1].id
        elif is_last:
            if asked.include_artifacts:
                task = await self._asked_for(asked, asked.context_id, with_result=True) or task
            found.tasks = sorted([*found.tasks, listed(task, asked)], key=_changed_at, reverse=True)
        return found

    async def _asked_for(self, asked: ListQuery, task_id: str, *, with_result: bool) -> A2ATask | None:
        """Return the contract with that id; None if there is none or the query's filters exclude it."""
        try:
            contract = await self._tasks.get(task_id, with_result=with_result)
        except Refused as refused:
            if refused.code != "task.unknown":
                raise
            return None
        task = contract_as_task(contract, history_length=asked.history_length)
        is_older = milliseconds(task.status.timestamp) < oldest_wanted(asked)
        return task if includes(asked, task.status.state) and not is_older else None

    async def _cancel(self, request: Request, task_id: str) -> A2ATask:
        if canceled := await self._messages.cancel(task_id):
            return canceled
        await _found(task_id, self._tasks.require_known(task_id))
        body = await request.body()
        shown = (decode(body, Cancel).metadata if body else None) or ShownToken()
        token = decode(bytes(shown.publisher_token), object)
        proof = Cancellation(token if isinstance(token, str) else None)
        signed = await self._signatures.of(request, ())
        try:
            return contract_as_task(await self._tasks.cancel(task_id, proof, signed))
        except Refused as refused:
            match refused.code:
                case "task.state":
                    why = f"it is {refused.facts['status']}"
                case "task.publisher":
                    why = "only its publisher can: send metadata.publisherToken, or sign with the key of the offer"
                case _:
                    raise
            raise A2AError("TASK_NOT_CANCELABLE", f"Task {task_id} cannot be canceled: {why}", taskId=task_id) from None

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of contracts, those of the shared paths among them, and of A2A (SPEC 4.2, 4.3)."""
        contracts = self._contracts | {
            ("GET", LIST): _shared(self._contracts["GET", LIST], self.list_tasks, TaskList, ListParameters),
            ("GET", READ): _shared(self._contracts["GET", READ], self.get_task, A2ATask, ReadParameters),
        }
        return (
            *contracts.values(),
            *routes_of(
                "a2a",
                ("POST", "/api/v1/tasks/{id}:cancel", self.cancel),
                # The text of the A2A specification says POST, the HTTP annotation in its proto file says GET.
                ("POST", "/api/v1/tasks/{id}:subscribe", self.refuse_subscription),
                ("GET", "/api/v1/tasks/{id}:subscribe", self.refuse_subscription),
                ("POST", "/api/v1/a2a/tasks", self.offer),
                fault=fault,
            ),
        )


async def _found(task_id: str, looking: Awaitable[T]) -> T:
    """Await `looking` and return its result. Raises A2AError if the task is unknown."""
    try:
        return await looking
    except Refused as refused:
        if refused.code != "task.unknown":
            raise
        raise A2AError("TASK_NOT_FOUND", f"The task {task_id} does not exist", taskId=task_id) from None


def _changed_at(task: A2ATask) -> int:
    """Return when the task got its status, in milliseconds since 1970."""
    return milliseconds(task.status.timestamp)


def _shared(route: Route, handler: Handler, view: Any, query: type[msgspec.Struct]) -> Route:
    """Return the route of a contract operation, changed to also answer A2A clients, with a `view`.

    `query` has the parameters of both kinds of reader.
    """
    also = (OtherAnswer("application/json", view), *in_a2a_media(view))
    return msgspec.structs.replace(route, handler=handler, query=query, also=also, fault=shared_fault)
