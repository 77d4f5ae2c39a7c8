"""The workers' side of `client`: vectors of queries, and matches in an index in memory.

Requests that came together are embedded together; one whose caller waits no longer is not answered. A worker says that
it is there by a key that outlives it by three seconds.
"""

import asyncio
from collections.abc import Sequence
from typing import cast

import structlog

from node.embedding.embedder import Embedder
from node.search.index_versions import IndexVersion, IndexVersions, is_made_by
from node.search.indexing.memory_replica import MemoryReplica
from node.search.ranking import RankedThreads
from node.search.rpc.client import QueryVector, Service, WorkerReply, WorkerRequest, decode_request, encode
from node.search.worker_loop import until_woken
from node.store import Store, StoreUnavailable, keys
from node.store.steps import Key, step

log = structlog.get_logger()

REQUESTS_AT_ONCE = 32
"""Requests taken together."""

POLL_SECONDS = 1.0
"""Between looks without a wake-up, and between two signs of life."""

ALIVE_MS = 3000
"""For which a sign of life holds."""

CACHED_SECONDS = 600
"""For which the vector of a query is kept in Redis."""


@step
def search_take(*, requests: Key, most: int) -> None:
    """Requests whose callers still wait."""


class WorkerServer:
    """One worker's part in it."""

    def __init__(self, store: Store, embedder: Embedder, memory: MemoryReplica) -> None:
        self._store = store
        self._embedder = embedder
        self._memory = memory
        self._versions = IndexVersions(store)

    async def run(self, stop: asyncio.Event) -> None:
        """Answer until `stop` is set."""
        async with asyncio.TaskGroup() as services:
            services.create_task(self._serve("vectors", stop))
            services.create_task(self._serve("hits", stop))

    async def _serve(self, service: Service, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        said_alive = -POLL_SECONDS
        with await self._store.wakeups.listen(keys.search_asks(service)) as listener:
            while not stop.is_set():
                worked = False
                try:
                    current = await self._versions.current()
                    version = current if is_made_by(self._embedder.model, current) else None
                    if self._memory.ready if service == "hits" else version:
                        if loop.time() - said_alive >= POLL_SECONDS:
                            said_alive = loop.time()
                            await self._store.command("SET", keys.search_alive(service), 1, "PX", ALIVE_MS)
                        worked = await self._answer(service, version)
                except StoreUnavailable:
                    pass  # the callers go on by text
                except Exception:
                    log.exception("question not answered", service=service)
                if not worked:
                    await until_woken(listener, POLL_SECONDS, stop)

    async def _answer(self, service: Service, version: IndexVersion | None) -> bool:
        """Answer the requests that wait. Returns whether there were any."""
        reply = await self._store.run(search_take(requests=keys.search_asks(service), most=REQUESTS_AT_ONCE))
        _, *waiting = cast("list[bytes]", reply)
        requests = [decode_request(raw) for raw in waiting]
        vectors = await self._vectors(version, list({each.text for each in requests})) if version and requests else {}
        await asyncio.gather(*(self._reply(each, version, vectors.get(each.text)) for each in requests))
        return bool(requests)

    async def _reply(self, request: WorkerRequest, version: IndexVersion | None, vector: bytes | None) -> None:
        reply = WorkerReply()
        if request.search is not None:
            comparable = vector if version and version.name == self._memory.version else None
            matches = await self._memory.find(request.search, comparable)
            reply = WorkerReply(found=RankedThreads(matches, "both" if comparable else "text"))
        elif version and vector:
            reply = WorkerReply(QueryVector(version.name, vector))
        await self._store.command("SPUBLISH", request.channel, request.id + encode(reply))

    async def _vectors(self, version: IndexVersion, texts: Sequence[str]) -> dict[str, bytes]:
        """The vectors of queries, from the cache where they are in it."""
        prefix = version.name.encode() + b" "
        cached = await self._store.commands([("GET", keys.query_vector(text)) for text in texts])
        found = {
            text: raw.removeprefix(prefix)
            for text, raw in zip(texts, cast("list[bytes | None]", cached), strict=True)
            if raw and raw.startswith(prefix)
        }
        unknown = [text for text in texts if text not in found]
        if unknown:
            made = dict(zip(unknown, await self._embedder.queries(unknown), strict=True))
            found |= made
            await self._store.commands(
                [
                    ("SET", keys.query_vector(text), prefix + vector, "EX", CACHED_SECONDS)
                    for text, vector in made.items()
                ]
            )
        return found
