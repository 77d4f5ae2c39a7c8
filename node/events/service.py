"""Following events, page by page or live (NETWORK 3)."""

from collections.abc import Iterator, Sequence
from time import monotonic

import msgspec

from node.agents.service import Agents
from node.board.service import Board
from node.common.pauses import paused
from node.common.refusal import Invalid
from node.events.broadcast import Broadcast, Broadcasts, Follower
from node.events.feed import FeedStore
from node.events.frames import Frame, Frames, together
from node.events.model import TOPICS, EventPage, EventQuery, EventView
from node.events.source import EventBatch, EventSource, Position, cursor_of, position_of
from node.events.sources import FeedSource, InboxSource, SessionSource, TaskSource, ThreadSource
from node.inbox.model import InboxProof
from node.inbox.service import Inboxes
from node.sessions.service import Sessions
from node.tasks.service import Tasks

KINDS = ("board", "tasks", "agents", "thread", "task", "session", "inbox")
"""The first words of topics."""


class Topic(msgspec.Struct):
    """What one client follows. Every method raises StoreUnavailable."""

    source: EventSource
    broadcasts: Broadcasts
    broadcast: Broadcast
    types: frozenset[str]
    """The types of events that the client wants."""
    looked: int = 0
    """Number of events of other types that were read for the client."""

    @property
    def has_ended(self) -> bool:
        """Whether nobody can follow any more, because the process is about to stop."""
        return self.broadcasts.has_ended

    def cursor(self, position: Position) -> str:
        """Return the cursor for a position."""
        return cursor_of(self.source.name, position)

    async def begin(self, cursor: str | None, limit: int) -> EventBatch:
        """Read the first events after a client's cursor. Raises as `read`, and Invalid."""
        match cursor:
            case None | "now":
                after = await self.broadcast.newest()
            case "earliest":
                after = await self.source.oldest()
            case _:
                after = position_of(self.source.name, cursor)
        return await self.read(after, limit)

    async def read(self, after: Position, limit: int) -> EventBatch:
        """Read the next events. Raises CursorTooOld, Refused if the entity is gone."""
        batch = await self.source.read(after, limit, self.types)
        self.looked += batch.looked
        return batch

    def frames(self, batch: EventBatch) -> Iterator[Frames]:
        """Yield the events of a batch as they are sent, encoding each only when needed."""
        return together(Frame(self.source.name, event) for event in batch.events)

    def join(self, after: Position) -> Follower | None:
        """Follow from a position on. Returns None if earlier events must be read first, or if following has ended."""
        return None if self.has_ended else self.broadcast.join(after, self.types)


class Events:
    """The service behind /api/v1/events."""

    def __init__(
        self,
        board: Board,
        tasks: Tasks,
        agents: Agents,
        sessions: Sessions,
        inboxes: Inboxes,
        feed: FeedStore,
        broadcasts: Broadcasts,
    ) -> None:
        self._board = board
        self._tasks = tasks
        self._sessions = sessions
        self._inboxes = inboxes
        self._broadcasts = broadcasts
        self._feeds = {
            "board": FeedSource(feed, board, tasks, agents, ("thread", "reply")),
            "tasks": FeedSource(feed, board, tasks, agents, ("task",)),
            "agents": FeedSource(feed, board, tasks, agents, ("agent",)),
        }

    def end(self) -> None:
        """End all followers, because the process is about to stop."""
        self._broadcasts.end()

    def followers(self) -> dict[str, int]:
        """Return the number of followers in this process by the first word of their topic."""
        return dict.fromkeys(KINDS, 0) | self._broadcasts.counts()

    async def feed_cursor(self, topic: str) -> str:
        """Return the cursor after the newest event of the board or of agents. Raises StoreUnavailable."""
        feed = self._feeds[topic]
        return cursor_of(feed.name, await feed.newest())

    def thread_cursor(self, thread_id: str, last_seq: int) -> str:
        """Return the cursor after a reply of a thread."""
        source = ThreadSource(self._board, thread_id)
        return cursor_of(source.name, source.after(last_seq))

    def topic(self, query: EventQuery, proof: InboxProof) -> Topic:
        """Return the topic that a request wants to follow with its credentials. Raises Invalid."""
        source = self._source(query.topic, proof)
        wanted = frozenset(filter(None, (each.strip() for each in query.types.split(","))))
        if unknown := wanted - source.types:
            known = ", ".join(sorted(source.types))
            raise Invalid.field(
                "query", "types", msg=f"{min(unknown)} is not an event type of this topic; its types are {known}"
            )
        broadcast = self._broadcasts.of(query.topic, (proof.signer, proof.token), source)
        return Topic(source, self._broadcasts, broadcast, wanted or source.types)

    async def page(self, topic: Topic, query: EventQuery) -> EventPage:
        """Return the next events, waiting for one if asked to.

        Raises Invalid, CursorTooOld, Refused if the entity is gone, StoreUnavailable.
        """
        batch = await topic.begin(query.cursor, query.limit)
        ends = monotonic() + query.wait
        while not batch.events and not batch.has_more and monotonic() < ends and self._broadcasts.may_wait:
            if follower := topic.join(batch.position):
                try:
                    async with paused():
                        frames = await follower.next(ends - monotonic())
                        newest = follower.position  # before the pause ends: the broadcast may move on until then
                finally:
                    follower.leave()
                if follower.has_ended and not frames:
                    batch = await topic.read(newest, query.limit)  # raises Refused if the entity is gone
                    break
                return _page(topic, [frame.view for frame in frames], query.limit, newest)
            batch = await topic.read(batch.position, query.limit)
        events = [EventView(topic.cursor(each.position), each.type, each.at, each.data) for each in batch.events]
        return EventPage(events, topic.cursor(batch.position), batch.has_more)

    def _source(self, topic: str, proof: InboxProof) -> EventSource:
        if feed := self._feeds.get(topic):
            return feed
        kind, _, entity = topic.partition(":")
        match kind:
            case "thread" if entity:
                return ThreadSource(self._board, entity)
            case "task" if entity:
                return TaskSource(self._tasks, entity)
            case "session" if entity:
                return SessionSource(self._sessions, entity)
            case "inbox" if entity:
                return InboxSource(self._inboxes, entity, proof)
            case _:
                raise Invalid.field("query", "topic", msg=f"{topic!r} is not a topic; use {TOPICS}")


def _page(topic: Topic, events: Sequence[EventView], limit: int, newest: Position) -> EventPage:
    """Return a page of the events that a follower got, up to the position `newest`."""
    has_more = len(events) > limit
    return EventPage(list(events[:limit]), events[limit - 1].id if has_more else topic.cursor(newest), has_more)
