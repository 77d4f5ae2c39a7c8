"""How a web process asks the workers: for the vector of a query, or for the hits of an index in memory.

The question goes through a list in Redis, the answer comes by news on a channel of this process. An
answer that does not come in time is as good as none: search goes on by text. What both sides send each
other is defined here; who answers is in `server`.
"""

import asyncio
import os
from collections import OrderedDict
from typing import Literal, cast

import msgspec

from node.search.ranking import RankedThreads, SearchRequest
from node.store import RedisReply, Store, keys
from node.store.decoding import code_of
from node.store.scripts import script

ASK = script("search_ask")

DEADLINE = 0.3
"""Seconds an answer may take (DESIGN 9)."""

MOST_WAITING = 256
"""Questions that may wait for a worker: more than can be answered in time."""

REMEMBERED = 512
"""Vectors kept in this process, under 1 MB."""

QUERY_CHARACTERS = 2000
"""Of a query that say what it means; as much as the worker embeds."""

Service = Literal["vectors", "hits"]


class WorkerRequest(msgspec.Struct, frozen=True, array_like=True):
    """A question: for hits if there is one, else for the vector of the text."""

    id: bytes
    channel: str
    text: str
    question: SearchRequest | None = None


class Vector(msgspec.Struct, frozen=True, array_like=True):
    """The vector of a query, and the generation of the index that it can be compared with."""

    generation: str
    vector: bytes


class WorkerReply(msgspec.Struct, frozen=True, array_like=True):
    """One of the two; on its way it follows the id of the question."""

    vector: Vector | None = None
    found: RankedThreads | None = None


encode = msgspec.msgpack.Encoder().encode
decode_ask = msgspec.msgpack.Decoder(WorkerRequest).decode
decode_answer = msgspec.msgpack.Decoder(WorkerReply).decode


class WorkerClient:
    """The workers, as one web process sees them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._channel = keys.search_answers(os.urandom(8).hex())
        self._vectors: OrderedDict[str, Vector] = OrderedDict()

    async def vector_of(self, query: str) -> Vector | None:
        """The vector of a query, or None if there is none in time. Raises StoreUnavailable."""
        text = meant(query)
        known = self._vectors.get(text)
        if known is not None:
            self._vectors.move_to_end(text)
            return known
        answer = await self._ask("vectors", text, None)
        if answer is None or answer.vector is None:
            return None
        self._vectors[text] = answer.vector
        if len(self._vectors) > REMEMBERED:
            self._vectors.popitem(last=False)
        return answer.vector

    def forget(self) -> None:
        """The vectors that are remembered are for a generation that is no more."""
        self._vectors.clear()

    async def find(self, question: SearchRequest) -> RankedThreads | None:
        """Hits out of a worker's memory, or None if there are none in time. Raises StoreUnavailable."""
        answer = await self._ask("hits", meant(question.text), question)
        return answer.found if answer else None

    async def _ask(self, service: Service, text: str, question: SearchRequest | None) -> WorkerReply | None:
        ask = WorkerRequest(os.urandom(8), self._channel, text, question)
        with await self._store.wakeups.listen(self._channel) as listener:
            known = await self._put(service, ask)
            if known is None or known.vector is not None:
                return known
            loop = asyncio.get_running_loop()
            deadline = loop.time() + DEADLINE
            while (left := deadline - loop.time()) > 0:
                message = await listener.next(left)
                if message and message.startswith(ask.id):
                    return decode_answer(memoryview(message)[len(ask.id) :])
        return None

    async def _put(self, service: Service, ask: WorkerRequest) -> WorkerReply | None:
        """The answer if it is known, one without content if it was asked for, None if nobody can give it."""
        reply = await self._store.run(
            ASK,
            [keys.search_asks(service), keys.search_alive(service), keys.query_vector(ask.text), keys.SEARCH_LIVE],
            [int(ask.question is None), int(DEADLINE * 1000), MOST_WAITING, encode(ask)],
        )
        match code_of(reply):
            case "cached":
                _, generation, vector = cast("tuple[bytes, bytes, bytes]", tuple(cast("list[RedisReply]", reply)))
                return WorkerReply(Vector(generation.decode(), vector))
            case "asked":
                return WorkerReply()
            case _:
                return None


def meant(query: str) -> str:
    """The part of a query that is embedded, on one line: what is cached is cached under it."""
    return " ".join(query.split())[:QUERY_CHARACTERS]
