"""/api/v1/board (SPEC 4.4); its search is in `node.search.api`, its pages are in `node.site`."""

from msgspec import UNSET

from node.board.model import NewReply, NewThread, Reply, Thread, ThreadPage, ThreadPageQuery, ThreadQuery
from node.board.service import Board
from node.search.model import Hit, SearchQuery
from node.web.http import JSON_TYPE, Request, Response, created, json_response
from node.web.idempotency import idempotency_key
from node.web.json import read_json, read_query
from node.web.json_schema import schema_document
from node.web.limits import Limiter
from node.web.route import Route
from node.web.signature import Signatures

SHOWN = frozenset({"title", "body", "author"})
"""Fields of a post that everybody can read. Only a signed body with no other fields is kept with the signature."""

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


class BoardApi:
    """Threads and replies over HTTP."""

    def __init__(self, board: Board, limiter: Limiter, signatures: Signatures) -> None:
        self._board = board
        self._limiter = limiter
        self._signatures = signatures

    async def list_threads(self, request: Request) -> Response:
        """Open threads, newest activity first."""
        return json_response(await self._board.page(read_query(request, ThreadPageQuery)))

    async def post_thread(self, request: Request) -> Response:
        """Open a thread."""
        async with self._limiter.permit(request, "board") as permit:
            new = await read_json(request, NewThread)
            body = await request.body()
            await permit.hold()
            await permit.charge("thread", len(body))
            signed = await self._signatures.of(request, SHOWN)
            idempotency = idempotency_key(request, "board", body)
            thread, replayed = await self._board.post(new, signed, idempotency, permit.client)
            if replayed:
                await permit.replay()
        return created(thread, thread.url)

    async def get_thread(self, request: Request) -> Response:
        """A thread with its replies."""
        query = read_query(request, ThreadQuery)
        return json_response(await request.while_waiting(query.wait, self._board.read(request.params["id"], query)))

    async def add_reply(self, request: Request) -> Response:
        """Answer an open thread."""
        thread_id = request.params["id"]
        async with self._limiter.permit(request, "reply", thread_id) as permit:
            new = await read_json(request, NewReply)
            body = await request.body()
            idempotency = idempotency_key(request, f"reply:{thread_id}", body)
            await permit.charge("reply", len(body))
            signed = await self._signatures.of(request, SHOWN)
            reply, replayed = await self._board.reply(permit, thread_id, new, signed, idempotency)
            if replayed:
                await permit.replay()
        return created(reply, f"/api/v1/board/threads/{thread_id}?since_seq={reply.seq - 1}")

    async def close_thread(self, request: Request) -> Response:
        """Close a thread with the key that signed it."""
        signed = await self._signatures.of(request, SHOWN)
        return json_response(await self._board.close(request.params["id"], signed))

    async def get_schema(self, request: Request) -> Response:
        """JSON Schema of what the board takes and shows."""
        return Response(200, SCHEMA, (JSON_TYPE, (b"cache-control", b"public, max-age=3600")))

    def routes(self) -> tuple[Route, ...]:
        """SPEC 4.4, and closing by the signer."""
        unknown = ("thread.unknown",)
        written = ("language.not_english", "idempotency.conflict", "signature.invalid", "signature.replayed")
        return (
            Route(
                method="GET",
                path="/api/v1/board",
                hot=True,
                handler=self.list_threads,
                summary="List open threads, newest activity first",
                tag="board",
                query=ThreadPageQuery,
                answers=ThreadPage,
            ),
            Route(
                method="POST",
                path="/api/v1/board",
                handler=self.post_thread,
                summary="Post a thread",
                tag="board",
                body=NewThread,
                answers=Thread,
                shows={"replies": UNSET, "next_since_seq": UNSET, "reply_count": 0, "last_reply_at": None},
                status=201,
                errors=written,
                limit="board",
            ),
            Route(
                method="GET",
                path="/api/v1/board/schema",
                handler=self.get_schema,
                summary="JSON Schema of threads, replies, hits and requests",
                tag="board",
                media_type="application/json",
            ),
            *(
                Route(
                    method="GET",
                    path=path,
                    handler=self.get_thread,
                    summary="Read a thread and its replies",
                    tag="board",
                    query=ThreadQuery,
                    answers=Thread,
                    errors=unknown,
                )
                for path in ("/api/v1/board/threads/{id}", "/api/v1/board/{id}")
            ),
            Route(
                method="POST",
                path="/api/v1/board/{id}/replies",
                handler=self.add_reply,
                summary="Reply to an open thread",
                tag="board",
                body=NewReply,
                answers=Reply,
                status=201,
                errors=(*unknown, "thread.closed", *written),
                limit="reply",
            ),
            Route(
                method="POST",
                path="/api/v1/board/{id}/close",
                handler=self.close_thread,
                summary="Close a signed thread, signed with the same key",
                tag="board",
                answers=Thread,
                shows={"status": "closed", "is_signed": True, "signature": PROOF},
                errors=(*unknown, "thread.signer", "signature.invalid", "signature.replayed"),
            ),
        )
