"""GET /api/v1/.../{id}/callbacks: the delivery state of an entity's callbacks, for its owner only (NETWORK 4)."""

from functools import partial

from node.board.service import Board
from node.callbacks.delivery import DeliveryPage, DeliveryQuery, DeliveryRecords, Entity, Require
from node.inbox.api import OWNER, TOKEN, proof_of
from node.inbox.service import Inboxes
from node.sessions.service import Sessions
from node.tasks.service import Tasks
from node.web.bearer import bearer_of
from node.web.http import NO_STORE, Request, Response, json_response
from node.web.json import read_query
from node.web.route import Operation, Route, routes_of
from node.web.signature import Signatures

PUBLISHER = ("Authorization", "`Bearer` and the publisher_token; or sign the request with the key of the offer instead")
DESTROYER = ("Authorization", "`Bearer` and the destroy_token")
NOTHING_SHOWN = "callbacks.proof"


class DeliveriesApi:
    """Delivery states over HTTP. Each feature decides who may read them; the records are the same for all features."""

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
        "Read the delivery status of the callbacks about your contract; with wait, wait for a change",
        query=DeliveryQuery,
        headers=(PUBLISHER,),
        answers=DeliveryPage,
        errors=("task.unknown", NOTHING_SHOWN, "task.publisher", "signature.invalid"),
    )
    async def of_task(self, request: Request) -> Response:
        query, proof = read_query(request, DeliveryQuery), await proof_of(request, self._signatures)
        task_id = request.params["id"]
        require = partial(self._tasks.require_publisher, task_id, proof.token, proof.signer)
        return await self._page(request, query, "task", task_id, require)

    @Operation(
        "Read the delivery status of the callbacks about your session; with wait, wait for a change",
        query=DeliveryQuery,
        headers=(DESTROYER,),
        answers=DeliveryPage,
        shows={"callbacks": [{"type": "session.line"}]},
        errors=("session.gone", NOTHING_SHOWN, "session.token"),
    )
    async def of_session(self, request: Request) -> Response:
        query = read_query(request, DeliveryQuery)
        session_id = request.params["id"]
        require = partial(self._sessions.require_opener, session_id, bearer_of(request))
        return await self._page(request, query, "session", session_id, require)

    @Operation(
        "Read the delivery status of the callbacks about a thread that you signed (sign with the same "
        "key); with wait, wait for a change",
        query=DeliveryQuery,
        answers=DeliveryPage,
        shows={"callbacks": [{"type": "board.reply"}]},
        errors=("thread.unknown", "thread.signer", "signature.invalid"),
    )
    async def of_thread(self, request: Request) -> Response:
        query, proof = read_query(request, DeliveryQuery), await proof_of(request, self._signatures)
        thread_id = request.params["id"]
        require = partial(self._board.require_signer, thread_id, proof.signer)
        return await self._page(request, query, "thread", thread_id, require)

    @Operation(
        "Read the delivery status of the callbacks about your inbox; with wait, wait for a change",
        query=DeliveryQuery,
        headers=(TOKEN,),
        answers=DeliveryPage,
        shows={"callbacks": [{"type": "inbox.message"}]},
        errors=OWNER,
    )
    async def of_inbox(self, request: Request) -> Response:
        query, address = read_query(request, DeliveryQuery), request.params["address"]
        require = partial(self._inboxes.require_owner, address, await proof_of(request, self._signatures))
        return await self._page(request, query, "inbox", address, require)

    async def _page(
        self, request: Request, query: DeliveryQuery, kind: Entity, name: str, require: Require
    ) -> Response:
        reading = self._records.of(kind, name, query, require)
        return json_response(await request.while_waiting(query.wait, reading), headers=NO_STORE)

    def routes(self) -> tuple[Route, ...]:
        """NETWORK 4, and the route of inboxes in addition."""
        return (
            *routes_of("tasks", ("GET", "/api/v1/tasks/{id}/callbacks", self.of_task)),
            *routes_of("sessions", ("GET", "/api/v1/sessions/{id}/callbacks", self.of_session)),
            *routes_of("board", ("GET", "/api/v1/board/{id}/callbacks", self.of_thread)),
            *routes_of("inboxes", ("GET", "/api/v1/inboxes/{address}/callbacks", self.of_inbox)),
        )
