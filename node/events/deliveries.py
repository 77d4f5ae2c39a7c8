"""GET /api/v1/.../{id}/callbacks: how far the callbacks about a thing are, for its owner alone (NETWORK 4)."""

from collections.abc import Awaitable, Callable

from node.board.service import Board
from node.callbacks.delivery import DeliveryPage, DeliveryQuery, DeliveryRecords
from node.inbox.api import OWNER, TOKEN, proof_of
from node.inbox.model import InboxProof
from node.inbox.service import Inboxes
from node.sessions.service import Sessions
from node.store import ids
from node.tasks.service import Tasks
from node.web.bearer import bearer_of
from node.web.http import NO_STORE, Request, Response, json_response
from node.web.json import read_query
from node.web.route import Operation, Route, routes_of
from node.web.signature import Signatures

PUBLISHER = ("Authorization", "Bearer and the publisher_token; or sign the request with the key of the offer")
DESTROYER = ("Authorization", "Bearer and the destroy_token")
NOTHING_SHOWN = "callbacks.proof"

RequireRight = Callable[[str, InboxProof], Awaitable[None]]
"""Takes the id of an entity and what a request shows for itself. Raises Refused unless that allows the read."""


class DeliveriesApi:
    """Delivery states over HTTP: each feature says who may read, and the record is the same for all."""

    def __init__(
        self,
        tasks: Tasks,
        sessions: Sessions,
        board: Board,
        inboxes: Inboxes,
        records: DeliveryRecords,
        signatures: Signatures,
    ) -> None:
        self._tasks = tasks
        self._sessions = sessions
        self._board = board
        self._inboxes = inboxes
        self._records = records
        self._signatures = signatures

    @Operation(
        "How far the callbacks about your contract are; wait for a change",
        query=DeliveryQuery,
        headers=(PUBLISHER,),
        answers=DeliveryPage,
        errors=("task.unknown", NOTHING_SHOWN, "task.publisher", "signature.invalid"),
    )
    async def of_task(self, request: Request) -> Response:
        return await self._of_id(
            request, lambda task_id, proof: self._tasks.require_publisher(task_id, proof.token, proof.signer)
        )

    @Operation(
        "How far the callbacks about your session are; wait for a change",
        query=DeliveryQuery,
        headers=(DESTROYER,),
        answers=DeliveryPage,
        shows={"callbacks": [{"type": "session.line"}]},
        errors=("session.gone", NOTHING_SHOWN, "session.token"),
    )
    async def of_session(self, request: Request) -> Response:
        # Its destroy_token alone opens it, so no signature is looked at.
        return await self._of_id(
            request,
            lambda session_id, proof: self._sessions.require_opener(session_id, proof.token),
            InboxProof(bearer_of(request)),
        )

    @Operation(
        "How far the callbacks about your signed thread are, signed with the same key; wait for a change",
        query=DeliveryQuery,
        answers=DeliveryPage,
        shows={"callbacks": [{"type": "board.reply"}]},
        errors=("thread.unknown", "thread.signer", "signature.invalid"),
    )
    async def of_thread(self, request: Request) -> Response:
        return await self._of_id(request, lambda thread_id, proof: self._board.require_signer(thread_id, proof.signer))

    @Operation(
        "How far the callbacks about your inbox are; wait for a change",
        query=DeliveryQuery,
        headers=(TOKEN,),
        answers=DeliveryPage,
        shows={"callbacks": [{"type": "inbox.message"}]},
        errors=OWNER,
    )
    async def of_inbox(self, request: Request) -> Response:
        return await self._answer(request, request.params["address"], ids.partition_of, self._inboxes.require_owner)

    async def _of_id(self, request: Request, require_right: RequireRight, proof: InboxProof | None = None) -> Response:
        return await self._answer(request, request.params["id"], ids.partition_of_id, require_right, proof)

    async def _answer(
        self,
        request: Request,
        entity: str,
        partition_of: Callable[[str], int],
        require_right: RequireRight,
        proof: InboxProof | None = None,
    ) -> Response:
        query = read_query(request, DeliveryQuery)
        await require_right(entity, proof or await proof_of(request, self._signatures))
        reading = self._records.read(partition_of(entity), entity, query)
        return json_response(await request.while_waiting(query.wait, reading), headers=NO_STORE)

    def routes(self) -> tuple[Route, ...]:
        """NETWORK 4; those of inboxes are ours."""
        return (
            *routes_of("tasks", ("GET", "/api/v1/tasks/{id}/callbacks", self.of_task)),
            *routes_of("sessions", ("GET", "/api/v1/sessions/{id}/callbacks", self.of_session)),
            *routes_of("board", ("GET", "/api/v1/board/{id}/callbacks", self.of_thread)),
            *routes_of("inboxes", ("GET", "/api/v1/inboxes/{address}/callbacks", self.of_inbox)),
        )
