"""/api/v1/board (SPEC 4.4). Its search is in `node.search.api`, its HTML pages are in `node.site`."""

from msgspec import UNSET

from node.board.model import (
    NewReply,
    NewReport,
    NewThread,
    ReceivedReport,
    Reply,
    Thread,
    ThreadPage,
    ThreadPageQuery,
    ThreadQuery,
)
from node.board.service import Board
from node.callbacks.model import BoardReplyCallback
from node.search.model import Hit, SearchQuery
from node.store import ids
from node.web.example_values import ID, PEER_ID
from node.web.http import JSON_TYPE, Request, Response, created, json_response
from node.web.idempotency import idempotency_key
from node.web.json import read_json, read_query
from node.web.json_schema import schema_document
from node.web.limits import Limiter
from node.web.route import WHOLE, Operation, Route, routes_of
from node.web.signature import Signatures
from node.web.throughput import FREE_BYTES

SHOWN = frozenset({"title", "body", "author"})
"""Public fields of a post. The signed body is kept with its signature only if it has no other fields."""

PROOF = {
    "key": "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs",
    "signature": "…",
    "components": [["@method", "POST"], ["@path", "/api/v1/board"]],
    "params": "…",
    "signed_body": "…",
}
"""An example of the `signature` that a signed thread shows."""

SCHEMA = schema_document(
    "Board", thread=Thread, reply=Reply, search_hit=Hit, new_thread=NewThread, new_reply=NewReply, search=SearchQuery
)

REPLY_WEIGHT = 8
"""Cost of a byte of a reply, in bytes of an answer: judging and keeping 4 kB takes a millisecond. The limit of replies
is per thread, so only this cost bounds the replies of one client to all threads together."""

UNKNOWN = ("thread.unknown",)
"""Refusals for a thread that does not exist or is hidden; also for a repeated post whose thread is gone or hidden."""

WRITTEN = ("language.not_english", "idempotency.conflict", "signature.invalid", "signature.replayed")
"""Refusals of everything that writes a post."""

REPLIED: dict[str, object] = {"replies": [{"id": PEER_ID, "thread_id": ID}]}
"""Gives the reply in the example of a thread the id of that thread."""
OPEN: dict[str, object] = {"closed_at": UNSET, **REPLIED}
"""How the example of an open thread differs from that of any thread."""
POSTED: dict[str, object] = {
    **OPEN,
    "replies": UNSET,
    "next_since_seq": UNSET,
    "reply_count": 0,
    "last_reply_at": None,
}


class BoardApi:
    """Threads and replies over HTTP."""

    def __init__(self, board: Board, limiter: Limiter, signatures: Signatures) -> None:
        self._board = board
        self._limiter = limiter
        self._signatures = signatures

    @Operation(
        "List open threads, newest activity first", hot=True, query=ThreadPageQuery, answers=ThreadPage, shows=WHOLE
    )
    async def list_threads(self, request: Request) -> Response:
        return Response(200, await self._board.page_json(read_query(request, ThreadPageQuery)))

    @Operation(
        "Post a thread",
        hot=True,
        body=NewThread,
        answers=Thread,
        shows=POSTED,
        status=201,
        callbacks=(BoardReplyCallback,),
        errors=(*UNKNOWN, *WRITTEN, "quota.board"),
        limit="board",
    )
    async def post_thread(self, request: Request) -> Response:
        async with self._limiter.permit(request, "board") as permit:
            new = await read_json(request, NewThread)
            body = await request.body()
            idempotency = idempotency_key(request, "board", body, home=ids.home_of(permit.client))
            await permit.charge("thread", len(body), idempotency)
            signed = await self._signatures.of(request, SHOWN)
            thread, replayed = await self._board.post(permit, new, signed, idempotency)
            if replayed:
                await permit.replay()
        return created(thread, thread.url)

    @Operation("Read a thread and its replies", hot=True, query=ThreadQuery, answers=Thread, shows=OPEN, errors=UNKNOWN)
    async def get_thread(self, request: Request) -> Response:
        query = read_query(request, ThreadQuery)
        return json_response(await request.while_waiting(query.wait, self._board.read(request.params["id"], query)))

    @Operation(
        "Reply to an open thread",
        hot=True,
        body=NewReply,
        answers=Reply,
        status=201,
        errors=(*UNKNOWN, "thread.closed", *WRITTEN),
        limit="reply",
    )
    async def add_reply(self, request: Request) -> Response:
        thread_id = request.params["id"]
        async with self._limiter.permit(request, "reply", thread_id) as permit:
            new = await read_json(request, NewReply)
            body = await request.body()
            request.cost = FREE_BYTES + REPLY_WEIGHT * len(body)
            home = ids.named_partition(thread_id)
            idempotency = idempotency_key(request, f"reply:{thread_id}", body, home=home)
            await permit.charge("reply", len(body), idempotency)
            signed = await self._signatures.of(request, SHOWN)
            reply, replayed = await self._board.reply(permit, thread_id, new, signed, idempotency)
            if replayed:
                await permit.replay()
        return created(reply, self._board.address_of(reply))

    @Operation(
        "Close a thread that you signed; sign this request with the same key",
        answers=Thread,
        shows={"status": "closed", "is_signed": True, "signature": PROOF, **REPLIED},
        errors=(*UNKNOWN, "thread.signer", "signature.invalid", "signature.replayed"),
    )
    async def close_thread(self, request: Request) -> Response:
        signed = await self._signatures.of(request, SHOWN)
        return json_response(await self._board.close(request.params["id"], signed))

    @Operation(
        "Report a thread or one of its replies to the operator",
        body=NewReport,
        answers=ReceivedReport,
        status=202,
        errors=UNKNOWN,
        limit="report",
    )
    async def report(self, request: Request) -> Response:
        """Report to the operator a post that nobody should read. An address or IPv6 /48 counts once for it."""
        async with self._limiter.permit(request, "report") as permit:
            new = await read_json(request, NewReport)
            await permit.count()
            await permit.charge("report", len(await request.body()))
            received, is_kept = await self._board.report(request.params["id"], new, permit.client)
            if not is_kept:
                await permit.keep_nothing()
        return json_response(received, status=202)

    @Operation(
        "JSON Schema of the board's threads, replies, search hits and request bodies", media_type="application/json"
    )
    async def get_schema(self, request: Request) -> Response:
        return Response(200, SCHEMA, (JSON_TYPE, (b"cache-control", b"public, max-age=3600")))

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of SPEC 4.4, and those to close a thread as its signer and to report a post."""
        return routes_of(
            "board",
            ("GET", "/api/v1/board", self.list_threads),
            ("POST", "/api/v1/board", self.post_thread),
            ("GET", "/api/v1/board/schema", self.get_schema),
            ("GET", "/api/v1/board/threads/{id}", self.get_thread),
            ("GET", "/api/v1/board/{id}", self.get_thread),
            ("POST", "/api/v1/board/{id}/replies", self.add_reply),
            ("POST", "/api/v1/board/threads/{id}/replies", self.add_reply),
            ("POST", "/api/v1/board/{id}/close", self.close_thread),
            ("POST", "/api/v1/board/{id}/report", self.report),
        )
