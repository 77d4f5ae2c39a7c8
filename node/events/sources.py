"""The sources for the topics of NETWORK 3: the public feed, and single threads, contracts, sessions and inboxes.

`data` is read when an event is sent. For an event followed live, `data` is the state just after the event, for an older
event the present state. An event about an entity that nobody may see any more is left out.
"""

from collections.abc import Collection, Sequence

import msgspec

from node.agents.model import RemovedAgent
from node.agents.service import Agents
from node.board.model import Thread, ThreadQuery
from node.board.service import Board
from node.common.timestamps import timestamp
from node.events.feed import TYPES, FeedEntry, FeedStore
from node.events.source import START, CursorTooOld, EventBatch, Position, SourceEvent
from node.inbox.model import InboxPageQuery, InboxProof
from node.inbox.service import Inboxes
from node.sessions.model import PollQuery
from node.sessions.service import Sessions
from node.store import keys
from node.tasks.service import Tasks

READ_AT_ONCE = 200
"""Maximum number of entries of the feed that are read in one round trip."""

SCANNED_AT_ONCE = 600
"""Maximum number of entries that one read scans for events of its topic and types. Then the reader must ask again."""

FAR_AHEAD = 2**53
"""A sequence number larger than any that occurs."""


class FeedSource:
    """Events of all threads, of all contracts, or of all agents."""

    name = "feed"
    channel = keys.FEED

    def __init__(self, feed: FeedStore, board: Board, tasks: Tasks, agents: Agents, kinds: Collection[str]) -> None:
        """`kinds`: the first words of the types that this source has."""
        self._feed = feed
        self._board = board
        self._tasks = tasks
        self._agents = agents
        self.types = frozenset(each for each in TYPES.values() if each.partition(".")[0] in kinds)

    async def newest(self) -> Position:
        return await self._feed.newest()

    async def oldest(self) -> Position:
        return await self._feed.oldest()

    async def read(self, after: Position, limit: int, types: Collection[str]) -> EventBatch:
        entries: list[FeedEntry] = []
        start = after
        looked, has_more, is_full, count = 0, True, False, limit + 1  # one more, to tell whether this is the last page
        while has_more and not is_full and looked + len(entries) < SCANNED_AT_ONCE:
            count = min(count, READ_AT_ONCE)
            found = await self._feed.read(after, count)
            has_more = len(found) == count
            count *= 4  # many more unwanted entries may follow
            for entry in found:
                if entry.type not in types:
                    looked += 1
                elif len(entries) < limit:
                    entries.append(entry)
                else:
                    has_more = is_full = True
                    break
                after = entry.position
        return EventBatch(await self._with_data(entries), start, after, has_more, looked)

    async def _with_data(self, entries: Sequence[FeedEntry]) -> list[SourceEvent]:
        posts = {(entry.entity, entry.seq): None for entry in entries if entry.type.startswith(("thread.", "reply."))}
        tasks = {entry.entity: None for entry in entries if entry.type.startswith("task.")}
        shown: dict[tuple[str, int], object] = {}
        if posts:
            shown |= zip(posts, await self._board.posts(list(posts)), strict=True)
        if tasks:
            shown |= {(each.id, 0): each for each in await self._tasks.records(list(tasks)) if each}
        agents = {entry.entity: None for entry in entries if entry.type.startswith("agent.")}
        if agents:
            listed = await self._agents.shown(list(agents))
            shown |= {(agent_id, 0): each or RemovedAgent(agent_id) for agent_id, each in listed.items()}
        return [
            SourceEvent(entry.position, entry.type, timestamp(entry.at), data)
            for entry in entries
            if (data := shown.get((entry.entity, entry.seq))) is not None
        ]


class ThreadSource:
    """The events of one thread. A position is the number of posts, and whether the thread was closed after them."""

    types = frozenset({"thread.posted", "reply.added", "thread.closed"})

    def __init__(self, board: Board, thread_id: str) -> None:
        self._board = board
        self._id = thread_id
        self.name = f"thread:{thread_id}"

    @property
    def channel(self) -> str:
        return keys.thread(self._id)

    def after(self, seq: int) -> Position:
        """Return the position after a reply."""
        return seq + 1, 0

    async def newest(self) -> Position:
        thread = await self._board.read(self._id, ThreadQuery(since_seq=FAR_AHEAD, limit=1))
        return _seq_of(thread) + 1, int(thread.status == "closed")

    async def oldest(self) -> Position:
        await self._board.read(self._id, ThreadQuery(since_seq=FAR_AHEAD, limit=1))
        return START

    async def read(self, after: Position, limit: int, types: Collection[str]) -> EventBatch:
        posts, closed = after
        room = limit if posts else limit - 1
        # Replies that were not asked for are not read, and their reader is not charged for them.
        since = max(posts - 1, 0) if "reply.added" in types else FAR_AHEAD
        thread = await self._board.read(self._id, ThreadQuery(since_seq=since, limit=room + 1))
        # Hidden replies count towards the limit, so only the numbers tell which were read, and whether more follow.
        replies = [reply for reply in thread.replies or [] if reply.seq <= since + room]
        read_to = _seq_of(thread)
        has_more = read_to > since + room
        newest = read_to + 1, int(thread.status == "closed")
        if posts > newest[0] or closed > newest[1]:  # lost replies, reopened thread, or made-up cursor
            raise CursorTooOld(min((posts, 0), newest))
        thread.replies = thread.next_since_seq = msgspec.UNSET
        events = [] if posts else [SourceEvent(self.after(0), "thread.posted", thread.created_at, thread)]
        events += [SourceEvent(self.after(reply.seq), "reply.added", reply.created_at, reply) for reply in replies]
        if events:
            posts, closed = events[-1].position
        if room:
            posts = max(posts, min(read_to, since + room) + 1)  # past replies that the operator has hidden
        if thread.closed_at and not closed:
            has_more = has_more or (len(events) == limit and "thread.closed" in types)
            if not has_more:
                closed = 1
                events.append(SourceEvent((posts, closed), "thread.closed", thread.closed_at, thread))
        return EventBatch([event for event in events if event.type in types], after, (posts, closed), has_more)


def _seq_of(thread: Thread) -> int:
    """Return the number of the last reply that was read, hidden or not."""
    return thread.next_since_seq or 0


class TaskSource:
    """The last changes of one contract, as kept with the contract. A position is the number of a change."""

    types = frozenset(each for each in TYPES.values() if each.startswith("task."))

    def __init__(self, tasks: Tasks, task_id: str) -> None:
        self._tasks = tasks
        self._id = task_id
        self.name = f"task:{task_id}"

    @property
    def channel(self) -> str:
        return keys.task(self._id)

    async def newest(self) -> Position:
        log = await self._tasks.changes(self._id)
        return 0, log.count

    async def oldest(self) -> Position:
        log = await self._tasks.changes(self._id)
        return 0, log.count - len(log.last)

    async def read(self, after: Position, limit: int, types: Collection[str]) -> EventBatch:
        log = await self._tasks.changes(self._id)
        oldest = log.count - len(log.last)
        if not oldest <= after[1] <= log.count:  # also if a failover has lost changes
            raise CursorTooOld((0, min(oldest, log.count)))
        changes = list(enumerate(log.last, oldest + 1))[after[1] - oldest :]
        wanted = [(number, kind, at) for number, (what, at) in changes if (kind := TYPES[f"task.{what}"]) in types]
        # A result may have a megabyte, so the contract is read only if an event shows it.
        task = await self._tasks.get(self._id) if wanted else None
        events = [SourceEvent((0, number), kind, timestamp(at), task) for number, kind, at in wanted[:limit]]
        has_more = len(wanted) > limit
        return EventBatch(events, after, events[-1].position if has_more else (0, log.count), has_more)


class SessionSource:
    """The lines of one session. A position is the session's epoch and a sequence number."""

    types = frozenset({"session.line"})

    def __init__(self, sessions: Sessions, session_id: str) -> None:
        self._sessions = sessions
        self._id = session_id
        self.name = f"session:{session_id}"

    @property
    def channel(self) -> str:
        return keys.session(self._id)

    async def newest(self) -> Position:
        lines = await self._sessions.poll(self._id, PollQuery(since_seq=FAR_AHEAD, limit=1))
        return int(lines.epoch, 16), lines.next_since_seq

    async def oldest(self) -> Position:
        return (await self.newest())[0], 0

    async def read(self, after: Position, limit: int, types: Collection[str]) -> EventBatch:
        epoch, seq = after
        lines = await self._sessions.poll(self._id, PollQuery(since_seq=seq, limit=limit + 1))
        present = int(lines.epoch, 16)
        if epoch != present or lines.next_since_seq < seq:  # lines were lost
            raise CursorTooOld((present, lines.next_since_seq if epoch == present else 0))
        events = [SourceEvent((epoch, line.seq), "session.line", line.created_at, line) for line in lines.lines]
        if len(events) > limit:
            return EventBatch(events[:limit], after, events[limit - 1].position, has_more=True)
        return EventBatch(events, after, (epoch, lines.next_since_seq), has_more=False)


class InboxSource:
    """The messages that an inbox holds, for its owner, without settled ones. A position is a sequence number."""

    types = frozenset({"inbox.message"})

    def __init__(self, inboxes: Inboxes, address: str, proof: InboxProof) -> None:
        self._inboxes = inboxes
        self._address = address
        self._proof = proof
        self.name = f"inbox:{address}"

    @property
    def channel(self) -> str:
        return keys.inbox(self._address)

    async def newest(self) -> Position:
        page = await self._inboxes.read(self._address, InboxPageQuery(since_seq=FAR_AHEAD, limit=1), self._proof)
        return 0, page.next_since_seq

    async def oldest(self) -> Position:
        await self.newest()
        return START

    async def read(self, after: Position, limit: int, types: Collection[str]) -> EventBatch:
        query = InboxPageQuery(since_seq=after[1], limit=limit)
        page, newest = await self._inboxes.read_on(self._address, query, self._proof)
        if page.next_since_seq < after[1]:  # messages were lost
            raise CursorTooOld((0, page.next_since_seq))
        events = [SourceEvent((0, each.seq), "inbox.message", each.sent_at, each) for each in page.messages]
        if newest is None:
            return EventBatch(events, after, (0, page.next_since_seq), has_more=True)
        return EventBatch(events, after, (0, newest), has_more=False)  # past settled messages, too
