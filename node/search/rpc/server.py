"""The workers' side of `client`: vectors of queries, and matches in an index in memory.

Requests that came together are embedded together; one whose caller waits no longer is not answered. A worker says that
it is there by a key that outlives it by three seconds.
"""

import asyncio
from collections.abc import Sequence
from typing import cast

import structlog

from node.embedding.embedder import Embedder
from node.search.index_versions import IndexVersion, is_made_by
from node.search.indexing.memory_replica import MemoryReplica
from node.search.rpc.client import QueryVector, Service, WorkerReply, WorkerRequest, decode_request, encode
from node.search.store import SearchStore
from node.search.vectors import converted
from node.search.worker_loop import until_woken
from node.store import StoreUnavailable
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

    def __init__(self, store: SearchStore, embedder: Embedder, memory: MemoryReplica) -> None:
        self._store = store.main
        self._keys = store.keys
        self._embedder = embedder
        self._memory = memory
        self._versions = store.versions

    async def run(self, stop: asyncio.Event) -> None:
        """Answer until `stop` is set."""
        async with asyncio.TaskGroup() as services:
            services.create_task(self._serve("vectors", stop))
            services.create_task(self._serve("hits", stop))

    async def _serve(self, service: Service, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        said_alive = -POLL_SECONDS
        version: IndexVersion | None = None
        with await self._store.wakeups.listen(self._keys.asks(service)) as listener:
            while not stop.is_set():
                worked = False
                try:
                    could = self._can(service, version)
                    # In one trip. Requests are taken by what was known before; nobody answers them if that has changed.
                    current, requests = await asyncio.gather(self._versions.current(), self._taken(service, could))
                    version = current if is_made_by(self._embedder.model, current) else None
                    await self._answer(service, requests, version)
                    can = self._can(service, version)
                    if can and loop.time() - said_alive >= POLL_SECONDS:
                        said_alive = loop.time()
                        await self._store.command("SET", self._keys.alive(service), 1, "PX", ALIVE_MS)
                    worked = bool(requests) or (can and not could)
                except StoreUnavailable:
                    pass  # the callers go on by text
                except Exception:
                    log.exception("question not answered", service=service)
                if not worked:
                    await until_woken(listener, POLL_SECONDS, stop)

    def _can(self, service: Service, version: IndexVersion | None) -> bool:
        """Whether there is what the service needs, with that index version."""
        return self._memory.ready if service == "hits" else version is not None

    async def _taken(self, service: Service, can: bool) -> list[WorkerRequest]:
        """The requests that wait, for a service that can be given."""
        if not can:
            return []
        reply = await self._store.run(search_take(requests=self._keys.asks(service), most=REQUESTS_AT_ONCE))
        _, *waiting = cast("list[bytes]", reply)
        return [decode_request(raw) for raw in waiting]

    async def _answer(self, service: Service, requests: Sequence[WorkerRequest], version: IndexVersion | None) -> None:
        """Answer these requests, and remember the vectors that were made."""
        texts = list({each.text for each in requests})
        # Who asks for a vector has looked among the cached ones.
        known = await self._cached(version, texts) if version and service == "hits" else {}
        vectors = known | (await self._made(version, [text for text in texts if text not in known]) if version else {})
        prefix = version.name.encode() + b" " if version else b""
        await asyncio.gather(
            *(self._reply(each, version, vectors.get(each.text)) for each in requests),
            self._store.commands(
                [
                    ("SET", self._keys.query_vector(text), prefix + vector, "EX", CACHED_SECONDS)
                    for text, vector in vectors.items()
                    if text not in known
                ]
            ),
        )

    async def _reply(self, request: WorkerRequest, version: IndexVersion | None, vector: bytes | None) -> None:
        reply = WorkerReply()
        if request.search is not None:
            comparable = None
            if version and vector and version.name == self._memory.version:
                comparable = converted(vector, version.scalar, "float32")
            reply = WorkerReply(found=await self._memory.find(request.search, comparable))
        elif version and vector:
            reply = WorkerReply(QueryVector(version.name, vector))
        await self._store.command("SPUBLISH", request.channel, request.id + encode(reply))

    async def _cached(self, version: IndexVersion, texts: Sequence[str]) -> dict[str, bytes]:
        """The vectors of queries that are remembered."""
        prefix = version.name.encode() + b" "
        cached = await self._store.commands([("GET", self._keys.query_vector(text)) for text in texts])
        return {
            text: raw.removeprefix(prefix)
            for text, raw in zip(texts, cast("list[bytes | None]", cached), strict=True)
            if raw and raw.startswith(prefix)
        }

    async def _made(self, version: IndexVersion, texts: Sequence[str]) -> dict[str, bytes]:
        """The vectors of queries, as that version keeps them."""
        made = await self._embedder.queries(texts) if texts else []
        return {text: converted(vector, "float32", version.scalar) for text, vector in zip(texts, made, strict=True)}
