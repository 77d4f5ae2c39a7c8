"""The workers' side of `client`: vectors of queries, and hits out of an index in memory.

Questions that came together are embedded together; a question that nobody waits for any more is not
answered. A worker says that it is there by a key that outlives it by three seconds.
"""

import asyncio
from collections.abc import Sequence
from typing import cast

import structlog

from node.search.generations import IndexVersion, IndexVersions, kind_of
from node.search.indexing.memory_replica import MemoryReplica
from node.search.ranking import RankedThreads
from node.search.rpc.client import Service, Vector, WorkerReply, WorkerRequest, decode_ask, encode
from node.search.worker_loop import until_news
from node.store import Store, StoreUnavailable, keys
from node.store.scripts import script
from node.text.embed import Embedder

log = structlog.get_logger()

TAKE = script("search_take")

TOGETHER = 32
"""Questions taken at a time."""

LOOK = 1.0
"""Seconds between looks without news, and between two signs of life."""

ALIVE_MS = 3000
"""For which a sign of life holds."""

CACHED_SECONDS = 600
"""For which the vector of a query is kept in Redis."""


class WorkerServer:
    """One worker's part in it."""

    def __init__(self, store: Store, embedder: Embedder, memory: MemoryReplica) -> None:
        self._store = store
        self._embedder = embedder
        self._memory = memory
        self._generations = IndexVersions(store)

    async def run(self, stop: asyncio.Event) -> None:
        """Answer until `stop` is set."""
        async with asyncio.TaskGroup() as services:
            services.create_task(self._serve("vectors", stop))
            services.create_task(self._serve("hits", stop))

    async def _serve(self, service: Service, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        said = -LOOK
        with await self._store.wakeups.listen(keys.search_asks(service)) as listener:
            while not stop.is_set():
                worked = False
                try:
                    live = await self._usable()
                    if self._memory.ready if service == "hits" else live:
                        if loop.time() - said >= LOOK:
                            said = loop.time()
                            await self._store.command("SET", keys.search_alive(service), 1, "PX", ALIVE_MS)
                        worked = await self._answer(service, live)
                except StoreUnavailable:
                    pass  # whoever asked goes on by text
                except Exception:
                    log.exception("question not answered", service=service)
                if not worked:
                    await until_news(listener, LOOK, stop)

    async def _usable(self) -> IndexVersion | None:
        """The generation in use, if this worker's model made it."""
        model = self._embedder.model
        live = await self._generations.live() if model else None
        return live if model and live and live.model == kind_of(model) else None

    async def _answer(self, service: Service, live: IndexVersion | None) -> bool:
        """Answer what waits; whether anything did."""
        reply = await self._store.run(TAKE, [keys.search_asks(service)], [TOGETHER])
        _, *waiting = cast("list[bytes]", reply)
        asks = [decode_ask(raw) for raw in waiting]
        vectors = await self._vectors(live, list({ask.text for ask in asks})) if live and asks else {}
        await asyncio.gather(*(self._reply(ask, live, vectors.get(ask.text)) for ask in asks))
        return bool(asks)

    async def _reply(self, ask: WorkerRequest, live: IndexVersion | None, vector: bytes | None) -> None:
        answer = WorkerReply()
        if ask.question is not None:
            comparable = vector if live and live.name == self._memory.generation else None
            matches = await self._memory.find(ask.question, comparable)
            answer = WorkerReply(found=RankedThreads(matches, "both" if comparable else "text"))
        elif live and vector:
            answer = WorkerReply(Vector(live.name, vector))
        await self._store.command("SPUBLISH", ask.channel, ask.id + encode(answer))

    async def _vectors(self, live: IndexVersion, texts: Sequence[str]) -> dict[str, bytes]:
        """The vectors of queries, from the cache where they are in it."""
        mark = live.name.encode() + b" "
        cached = await asyncio.gather(*(self._store.command("GET", keys.query_vector(text)) for text in texts))
        found = {
            text: held.removeprefix(mark)
            for text, held in zip(texts, cast("list[bytes | None]", cached), strict=True)
            if held and held.startswith(mark)
        }
        lacking = [text for text in texts if text not in found]
        if lacking:
            made = dict(zip(lacking, await self._embedder.queries(lacking), strict=True))
            found |= made
            await asyncio.gather(
                *(
                    self._store.command("SET", keys.query_vector(text), mark + vector, "EX", CACHED_SECONDS)
                    for text, vector in made.items()
                )
            )
        return found
