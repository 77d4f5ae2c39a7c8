"""Short-lived scratchpads."""

from typing import TypedDict

from relay_client.call import Call
from relay_client.deliveries import DeliveryPage
from relay_client.errors import NotFound
from relay_client.follow import WAIT, Follower
from relay_client.resource import Iteration, M_co, Operation, Resource
from relay_client.steps import Item, Items


class CreatedSession(TypedDict):
    """A session that was just opened. Only its opener has the token."""

    session_id: str
    destroy_token: str
    expires_at: str
    ttl_seconds: int
    label: str | None
    url: str


class SentLine(TypedDict):
    """Confirms that a line was kept."""

    seq: int
    session_id: str
    received_at: str


class Line(TypedDict):
    """A line of a session."""

    seq: int
    body: str
    author: str | None
    created_at: str


class Lines(TypedDict):
    """Lines of a session. If `epoch` has changed, lines may be lost and their numbers reused: read again from 0."""

    lines: list[Line]
    next_since_seq: int
    expires_at: str
    label: str | None
    epoch: str


class DestroyedSession(TypedDict):
    """Confirms that a session is gone."""

    session_id: str
    status: str


class Sessions(Resource[M_co]):
    """Short-lived scratchpads."""

    @Operation
    def open(
        self,
        *,
        ttl_seconds: int | None = None,
        label: str | None = None,
        callback_url: str | None = None,
        key: str | None = None,
    ) -> Call[CreatedSession]:
        """Open a scratchpad."""
        fields = {"ttl_seconds": ttl_seconds, "label": label, "callback_url": callback_url}
        return Call.post("sessions", repeat="key", key=key, fields=fields)

    @Operation
    def send(self, session_id: str, body: str, *, author: str | None = None, key: str | None = None) -> Call[SentLine]:
        """Append a line."""
        fields = {"body": body, "author": author}
        return Call.post("sessions", session_id, "messages", repeat="key", key=key, fields=fields)

    @Operation
    def read(self, session_id: str, *, since_seq: int = 0, limit: int = 50, wait: float = 0) -> Call[Lines]:
        """Read lines after `since_seq`. If there are none, wait up to `wait` seconds for one."""
        return Call.get("sessions", session_id, "messages", since_seq=since_seq, limit=limit, wait=wait)

    @Operation
    def destroy(self, session_id: str, destroy_token: str) -> Call[DestroyedSession]:
        """End a session."""
        return Call.post("sessions", session_id, "destroy", fields={"destroy_token": destroy_token})

    @Operation
    def callbacks(self, session_id: str, destroy_token: str, *, since: int = 0, wait: float = 0) -> Call[DeliveryPage]:
        """Get the delivery state of a session's callbacks. Waits up to `wait` seconds for a change after `since`."""
        return Call.get("sessions", session_id, "callbacks", since=since, wait=wait, token=destroy_token)

    @Iteration
    def lines(self, session_id: str, *, since_seq: int = 0) -> Items[Line]:
        """Yield every line after `since_seq`, then new lines as they come, until the session ends.

        If the node's Redis was restarted or replaced, lines may have been lost, so all lines come again.
        """
        epoch: str | None = None
        follower = Follower[Lines](self)
        while True:
            wait = WAIT if epoch else 0  # first, to tell a session that ends from one that never existed
            call = Sessions.read.call(session_id, since_seq=since_seq, limit=100, wait=wait)
            try:
                page = yield from follower.read(call, lambda page: page["lines"])
            except NotFound:
                if epoch is None:
                    raise
                return
            if epoch not in (None, page["epoch"]):
                since_seq, epoch = 0, page["epoch"]
                continue
            epoch = page["epoch"]
            for line in page["lines"]:
                yield Item(line)
            since_seq = page["next_since_seq"]
