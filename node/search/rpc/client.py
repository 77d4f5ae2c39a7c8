"""How a web process asks the workers: for the vector of a query, or for the matches in an index in memory.

Both use sharded pub/sub: the request goes to a channel of one worker, the answer to a channel of this process, so Redis
writes neither to its disk. If no answer comes in time, the search goes on by text. The messages are defined here;
`server` is the side of the workers.
"""

import asyncio
import os
from collections import OrderedDict
from itertools import count
from typing import Literal, NamedTuple, cast

import msgspec

from node.embedding.model import MAX_QUERY_CHARACTERS
from node.search.ranking import RankedEntities, SearchRequest
from node.store import Store
from node.store.search_keys import SearchKeys
from node.store.steps import Key, step

ANSWER_SECONDS = 0.3
"""How long a process waits for an answer (DESIGN 9)."""

MAX_WAITING_REQUESTS = 256
"""Requests that wait at one worker: more than it can answer in time."""

REMEMBERED_VECTORS = 512
"""Vectors of queries that a process remembers; they take less than 1 MB."""

Service = Literal["vectors", "hits"]
"""What a worker offers: vectors of queries, or the matches in its index in memory."""


@step
def search_request(*, workers: Key, cached: Key, current: Key, is_answer: int, turn: int, request: bytes) -> None:
    """Send a request to one of the workers."""


class WorkerRequest(msgspec.Struct, frozen=True, array_like=True):
    """A request for matches if it has a `search`, else for the vector of its text."""

    id: bytes
    channel: str
    """Where the answer is to be published, after the id."""
    wait: float
    """Seconds for which the caller waits for it."""
    text: str
    search: SearchRequest | None = None
    site: str = ""
    """A name for the site of the client that searches (`ids.site_name`): a worker takes the sites in turn."""


class VersionedRequest(NamedTuple):
    """A request as `lua/search_request.lua` sends it."""

    version: str
    """Name of the index version in use then; empty if there was none."""
    vector: bytes
    """The vector of the text in that version, if it was cached; else empty."""
    request: WorkerRequest


class QueryVector(msgspec.Struct, frozen=True, array_like=True):
    """The vector of a query, and the index version that it can be compared with."""

    version: str
    vector: bytes


class WorkerReply(msgspec.Struct, frozen=True, array_like=True):
    """The answer; with neither of the two, the search goes on by text. It is sent after the id of the request."""

    vector: QueryVector | None = None
    found: RankedEntities | None = None


encode = msgspec.msgpack.Encoder().encode
decode_reply = msgspec.msgpack.Decoder(WorkerReply).decode
_decode_request = msgspec.msgpack.Decoder(WorkerRequest).decode


def decode_request(message: bytes) -> VersionedRequest:
    """A message on the channel of a worker."""
    version, length, rest = message.split(b" ", 2)
    return VersionedRequest(version.decode(), rest[: int(length)], _decode_request(memoryview(rest)[int(length) :]))


class WorkerClient:
    """The workers, as one web process sees them."""

    def __init__(self, store: Store, keys: SearchKeys) -> None:
        self._store = store
        self._keys = keys
        self._channel = keys.answers(os.urandom(8).hex())
        self._vectors: OrderedDict[str, QueryVector] = OrderedDict()
        self._turns = count(os.getpid())

    async def vector_of(self, query: str, site: str = "") -> QueryVector | None:
        """The vector of a query of a client of that site, or None if there is none in time. Raises StoreUnavailable."""
        text = embedded_part(query)
        known = self._vectors.get(text)
        if known is not None:
            self._vectors.move_to_end(text)
            return known
        reply = await self._ask("vectors", text, None, site)
        if reply is None or reply.vector is None:
            return None
        self._vectors[text] = reply.vector
        if len(self._vectors) > REMEMBERED_VECTORS:
            self._vectors.popitem(last=False)
        return reply.vector

    def forget(self) -> None:
        """Drop the remembered vectors: they are for an index version that is gone."""
        self._vectors.clear()

    async def find(self, search: SearchRequest, site: str = "") -> RankedEntities | None:
        """Matches from a worker's memory; None if no answer comes in time. Raises StoreUnavailable."""
        reply = await self._ask("hits", embedded_part(search.text), search, site)
        return reply.found if reply else None

    async def _ask(self, service: Service, text: str, search: SearchRequest | None, site: str) -> WorkerReply | None:
        request = WorkerRequest(os.urandom(8), self._channel, ANSWER_SECONDS, text, search, site)
        # Listening starts before the request is sent, so that no answer goes unheard.
        with await self._store.wakeups.listen(self._channel, request.id) as listener:
            reply = await self._store.run(
                search_request(
                    workers=self._keys.workers(service),
                    cached=self._keys.query_vector(text),
                    current=self._keys.current,
                    is_answer=int(search is None),
                    turn=next(self._turns),
                    request=encode(request),
                )
            )
            outcome, *cached = cast("list[bytes]", reply)
            if outcome == b"cached":
                return WorkerReply(QueryVector(cached[0].decode(), cached[1]))
            loop = asyncio.get_running_loop()
            deadline = loop.time() + ANSWER_SECONDS
            while outcome == b"sent" and (left := deadline - loop.time()) > 0:
                if message := await listener.next(left):
                    return decode_reply(memoryview(message)[len(request.id) :])
        return None


def embedded_part(query: str) -> str:
    """The part of a query that is embedded, on one line; its vector is cached under it."""
    return " ".join(query.split())[:MAX_QUERY_CHARACTERS]
