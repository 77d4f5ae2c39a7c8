"""GET /api/v1/events (NETWORK 3), answered by a page or a stream."""

from msgspec.structs import replace

from node.common.refusal import Invalid, Refused
from node.events.frames import Form
from node.events.model import EventPage, EventQuery, EventView
from node.events.service import Events, Topic
from node.events.source import CursorTooOld, EventBatch
from node.events.stream import READ_FIRST, EventStream
from node.inbox.api import OWNER, TOKEN, proof_of
from node.inbox.model import InboxProof
from node.web.accept import preferred
from node.web.errors import RefusedWithHeaders
from node.web.http import NO_STORE, Request, Response, json_response
from node.web.json import read_query
from node.web.limits import Limiter
from node.web.route import Operation, OtherAnswer, Route, routes_of
from node.web.signature import Signatures
from node.web.streams import STREAM_HEADERS, StreamCount, Streaming, hold_place

MAX_STREAMS = 2000
"""Maximum number of open streams in one process: half of the connections that it accepts. Beyond that, 503."""

LOOK_BYTES = 256
"""Cost of an event that is read but not wanted (3 µs), as bytes of an answer."""

THREAD_BYTES = 32 * 1024
"""Cost of a page of a thread's events, as bytes of an answer: each page reads the thread's text, twice if it begins
now."""

LAST_EVENT_ID = b"last-event-id"

FORMS: dict[str, Form] = {"text/event-stream": "sse", "application/x-ndjson": "ndjson"}
"""Media types of streams."""


class EventsApi:
    """The event feed over HTTP."""

    def __init__(self, events: Events, limiter: Limiter, signatures: Signatures) -> None:
        self._events = events
        self._limiter = limiter
        self._signatures = signatures
        self._streams = StreamCount()

    @Operation(
        "Follow the board, all contracts or agents, or one thread, contract, session or inbox, in "
        "pages or as a stream (Accept)",
        hot=True,
        query=EventQuery,
        asks="topic=board&cursor=earliest",
        headers=(("Last-Event-ID", "Id of the last event that you received; replaces cursor"), TOKEN),
        answers=EventPage,
        also=(
            OtherAnswer("text/event-stream", EventView, meaning="The events as they happen, until you disconnect"),
            OtherAnswer("application/x-ndjson", EventView, meaning="The same, each event as a line of JSON"),
        ),
        errors=("cursor.too_old", "thread.unknown", "task.unknown", "session.gone", "quota.stream", *OWNER),
        limit="stream",
    )
    async def follow(self, request: Request) -> Response:
        query = read_query(request, EventQuery)
        proof = await proof_of(request, self._signatures) if query.topic.startswith("inbox:") else InboxProof()
        topic = self._events.topic(query, proof)
        media_type = preferred(request.header(b"accept"), "application/json", *FORMS)
        if media_type not in FORMS:
            query = replace(query, cursor=request.header(LAST_EVENT_ID) or query.cursor)
            try:
                page = await request.while_waiting(query.wait, self._events.page(topic, query))
            except CursorTooOld as error:
                raise _too_old(topic, error) from None
            except Invalid as invalid:
                raise _where_it_is(request, invalid) from None
            finally:
                request.cost += topic.looked * LOOK_BYTES + (THREAD_BYTES if query.topic.startswith("thread:") else 0)
            return json_response(page, headers=NO_STORE)
        if topic.has_ended:
            raise Refused("store.busy", retry_after=5)
        kind = query.topic.partition(":")[0]  # not the id: the operator is not told which sessions a client follows
        async with self._streams.opening(MAX_STREAMS) as opening:
            opening.callback(lambda: request.add_cost(topic.looked * LOOK_BYTES))
            first, is_reset = await self._begin(request, topic, query)
            await hold_place(self._limiter, request, kind, self._streams.taken(MAX_STREAMS), opening)
            stream = EventStream(topic, FORMS[media_type], first, is_reset=is_reset)
            headers = ((b"content-type", media_type.encode()), *STREAM_HEADERS)
            return Streaming(stream.run, headers, opening.pop_all().aclose)

    async def _begin(self, request: Request, topic: Topic, query: EventQuery) -> tuple[EventBatch, bool]:
        """Return the first events of a stream, and whether they replace those that the client asked for."""
        last = request.header(LAST_EVENT_ID)
        cursor, is_reset = last or query.cursor, False
        while True:
            try:
                return await topic.begin(cursor, READ_FIRST), is_reset
            except CursorTooOld as error:
                if not last:
                    raise _too_old(topic, error) from None
                cursor, is_reset = topic.cursor(error.oldest), True  # that event may be gone, too, when it is read
            except Invalid as invalid:
                raise _where_it_is(request, invalid) from None

    def routes(self) -> tuple[Route, ...]:
        """NETWORK 3."""
        return routes_of("events", ("GET", "/api/v1/events", self.follow))


def _where_it_is(request: Request, invalid: Invalid) -> Invalid:
    """Return the error about a cursor, located at the header if the cursor is from there."""
    if not request.header(LAST_EVENT_ID):
        return invalid
    return invalid.moved(lambda _: ("header", "Last-Event-ID"))


def _too_old(topic: Topic, error: CursorTooOld) -> RefusedWithHeaders:
    oldest = topic.cursor(error.oldest)
    return RefusedWithHeaders("cursor.too_old", ((b"oldest-cursor", oldest.encode()),))
