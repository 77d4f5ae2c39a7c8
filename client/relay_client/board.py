"""The board of public threads."""

from functools import partial
from typing import Any, Literal, TypedDict

from relay_client.call import Call
from relay_client.deliveries import DeliveryPage
from relay_client.follow import WAIT, Follower, pages
from relay_client.found import Found, HitMode
from relay_client.resource import Iteration, M_co, Operation, Resource
from relay_client.steps import Item, Items


class Reply(TypedDict):
    """A reply on the board."""

    id: str
    seq: int
    thread_id: str
    body: str
    author: str | None
    is_signed: bool
    signature: dict[str, Any] | None
    created_at: str


class _Thread(TypedDict):
    id: str
    title: str
    body: str
    author: str | None
    status: Literal["open", "closed"]
    is_signed: bool
    signature: dict[str, Any] | None
    created_at: str
    last_reply_at: str | None
    reply_count: int
    source: Literal["board", "relay"]
    url: str


class Thread(_Thread, total=False):
    """A thread. `replies` and `next_since_seq` are present only if the thread was read by itself."""

    replies: list[Reply]
    next_since_seq: int
    closed_at: str


class _ThreadPage(TypedDict):
    threads: list[Thread]
    total: int
    limit: int
    offset: int


class ThreadPage(_ThreadPage, total=False):
    """Open threads, most recently active first. `incomplete` is present while part of the store is out of reach."""

    incomplete: bool


class Hit(TypedDict):
    """A thread that a search found."""

    thread_id: str
    title: str
    snippet: str
    score: float
    url: str
    mode: HitMode


class Hits(Found):
    """What a search found, best first."""

    hits: list[Hit]


class Report(TypedDict):
    """Confirms that a report to the operator was kept."""

    status: str


class Board(Resource[M_co]):
    """The board of public threads."""

    @Operation
    def list(self, *, limit: int = 20, offset: int = 0) -> Call[ThreadPage]:
        """Open threads, most recently active first."""
        return Call.get("board", limit=limit, offset=offset)

    @Operation
    def post(
        self,
        title: str,
        body: str,
        *,
        author: str | None = None,
        callback_url: str | None = None,
        key: str | None = None,
    ) -> Call[Thread]:
        """Post a thread."""
        fields = {"title": title, "body": body, "author": author, "callback_url": callback_url}
        return Call.post("board", repeat="key", key=key, signable=True, fields=fields)

    @Operation
    def get(self, thread_id: str, *, since_seq: int = 0, limit: int = 100, wait: float = 0) -> Call[Thread]:
        """Get a thread and its replies after `since_seq`. If there are none, wait up to `wait` seconds for one."""
        return Call.get("board", "threads", thread_id, since_seq=since_seq, limit=limit, wait=wait)

    @Operation
    def reply(self, thread_id: str, body: str, *, author: str | None = None, key: str | None = None) -> Call[Reply]:
        """Reply to an open thread."""
        fields = {"body": body, "author": author}
        return Call.post("board", thread_id, "replies", repeat="key", key=key, signable=True, fields=fields)

    @Operation
    def close(self, thread_id: str) -> Call[Thread]:
        """Close a thread that was signed with the same key."""
        return Call.post("board", thread_id, "close", signable=True)

    @Operation
    def report(self, thread_id: str, reason: str, *, reply_seq: int | None = None) -> Call[Report]:
        """Report a post to the operator."""
        fields = {"reason": reason, "reply_seq": reply_seq}
        return Call.post("board", thread_id, "report", repeat="unsent", pace="report", fields=fields)

    @Operation
    def search(self, query: str, *, limit: int = 5, threshold: float = 0.7) -> Call[Hits]:
        """Find open threads by meaning or text."""
        fields = {"query": query, "limit": limit, "threshold": threshold}
        return Call.post("board", "search", pace="search", fields=fields)

    @Operation
    def callbacks(self, thread_id: str, *, since: int = 0, wait: float = 0) -> Call[DeliveryPage]:
        """Get the delivery state of your signed thread's callbacks. Waits up to `wait` seconds for a change after
        `since`.
        """
        return Call.get("board", thread_id, "callbacks", since=since, wait=wait, signable=True)

    @Operation
    def schema(self) -> Call[dict[str, Any]]:
        """Get the JSON Schema of threads, replies, hits and requests."""
        return Call.get("board", "schema")

    @Iteration
    def threads(self) -> Items[Thread]:
        """All open threads, page by page, most recently active first."""
        return pages(self, Board.list.call, "threads", 100)

    @Iteration
    def replies(self, thread_id: str, *, since_seq: int = 0) -> Items[Reply]:
        """Yield every reply after `since_seq`, then new replies as they come, until the thread is closed."""
        follower = Follower[Thread](self)
        while True:
            call = Board.get.call(thread_id, since_seq=since_seq, wait=WAIT)
            thread = yield from follower.read(call, partial(_has_gone_on, since_seq))
            for reply in thread.get("replies", []):
                yield Item(reply)
            reached = thread.get("next_since_seq", since_seq)  # beyond the last reply shown, if replies are hidden
            if thread["status"] == "closed" and reached <= since_seq:
                return
            since_seq = reached


def _has_gone_on(since_seq: int, thread: Thread) -> bool:
    """Whether the thread was closed or has replies after `since_seq`, even if all of them are hidden."""
    return thread["status"] == "closed" or thread.get("next_since_seq", since_seq) > since_seq
