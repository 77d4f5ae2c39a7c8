"""The web process's side of requests to workers, for the vector of a query or for the matches in an index in memory.

Both go through sharded pub/sub: the request to a channel of one worker, the answer to a channel of this process. So
Redis writes neither to disk. If no answer comes in time, the search continues by text. The messages are defined here;
the workers' side is in `server`.
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
"""Seconds for which a web process waits for an answer (DESIGN 9)."""

MAX_WAITING_REQUESTS = 256
"""Maximum number of requests that wait at one worker: more than it can answer in time."""

REMEMBERED_VECTORS = 512
"""Vectors of queries that a web process caches, in less than 1 MB."""

Service = Literal["vectors", "hits"]
"""A service that a worker offers: vectors of queries, or matches in its index in memory."""


@step
def search_request(*, workers: Key, cached: Key, current: Key, is_answer: int, turn: int, request: bytes) -> None:
    """Send a request to one of the workers."""


class WorkerRequest(msgspec.Struct, frozen=True, array_like=True):
    """A request for matches if it has a `search`, else for the vector of its text."""

    id: bytes
    channel: str
    """Channel on which to publish the answer. The message is the id of the request followed by the answer."""
    wait: float
    """Seconds for which the caller waits for the answer."""
    text: str
    search: SearchRequest | None = None
    site: str = ""
    """Name for the site of the client that searches (`ids.site_name`). Workers serve the sites in turn."""


class VersionedRequest(NamedTuple):
    """A request as `lua/search_request.lua` sends it."""

    version: str
    """Name of the index version in use when the request was sent; empty if there was none."""
    vector: bytes
    """The vector of the text in that version if it was cached, else empty."""
    request: WorkerRequest


class QueryVector(msgspec.Struct, frozen=True, array_like=True):
    """The vector of a query, and the index version whose vectors it can be compared with."""

    version: str
    vector: bytes
    """Empty if the model knows no word of the query, which is then searched for by text only."""


class WorkerReply(msgspec.Struct, frozen=True, array_like=True):
    """An answer, which is sent after the id of the request. If both fields are None, the search continues by text."""

    vector: QueryVector | None = None
    found: RankedEntities | None = None


encode = msgspec.msgpack.Encoder().encode
decode_reply = msgspec.msgpack.Decoder(WorkerReply).decode
_decode_request = msgspec.msgpack.Decoder(WorkerRequest).decode


def decode_request(message: bytes) -> VersionedRequest:
    """Decode a message on the channel of a worker."""
    version, length, rest = message.split(b" ", 2)
    return VersionedRequest(version.decode(), rest[: int(length)], _decode_request(memoryview(rest)[int(length) :]))


class WorkerClient:
    """Sends the requests of one web process to the workers."""

    def __init__(self, store: Store, keys: SearchKeys) -> None:
        self._store = store
        self._keys = keys
        self._channel = keys.answers(os.urandom(8).hex())
        self._vectors: OrderedDict[str, QueryVector] = OrderedDict()
        self._turns = count(os.getpid())

    async def vector_of(self, query: str, site: str = "") -> QueryVector | None:
        """Return the vector of a query, for a client of this site, or None if no answer comes in time.

        Raises StoreUnavailable.
        """
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
        """Clear the cached vectors, because they belong to an index version that is gone."""
        self._vectors.clear()

    async def find(self, search: SearchRequest, site: str = "") -> RankedEntities | None:
        """Return matches from a worker's memory, or None if no answer comes in time. Raises StoreUnavailable."""
        reply = await self._ask("hits", embedded_part(search.text), search, site)
        return reply.found if reply else None

    async def _ask(self, service: Service, text: str, search: SearchRequest | None, site: str) -> WorkerReply | None:
        request = WorkerRequest(os.urandom(8), self._channel, ANSWER_SECONDS, text, search, site)
        # Listening starts before the request is sent, so that no answer is missed.
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
    """Return the part of a query that is embedded, on one line. It is also the key of the cached vector."""
    return " ".join(query.split())[:MAX_QUERY_CHARACTERS]
