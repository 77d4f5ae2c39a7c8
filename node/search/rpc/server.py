"""The workers' side of requests from web processes: vectors of queries, and matches in an index in memory.

Short requests that wait at the same time are embedded in one batch. A request whose caller has stopped waiting is not
answered. The next request always comes from the site for which the least text has been embedded. A worker sends a
heartbeat every second while it can answer; three seconds after its last heartbeat, web processes stop asking it.
"""

import asyncio
import math
import os
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, get_args

import structlog

from node.embedding.embedder import BATCH_CHARACTERS, Embedder
from node.search.index_versions import IndexVersion, is_made_by
from node.search.indexing.memory_replica import MemoryReplica
from node.search.rpc.client import (
    MAX_WAITING_REQUESTS,
    QueryVector,
    Service,
    VersionedRequest,
    WorkerReply,
    WorkerRequest,
    decode_request,
    encode,
)
from node.search.store import SearchStore
from node.search.vectors import converted
from node.search.worker_loop import woken_by
from node.store import StoreUnavailable
from node.store.steps import Key, step
from node.store.wakeups import Listener

log = structlog.get_logger()

REQUESTS_AT_ONCE = 8
"""Maximum number of requests answered together. Their texts fit into one batch, so that nobody waits for another."""

REMEMBERED_SITES = 1024
"""Sites for which the amount of embedded text is remembered. When there are more, sites with no waiting request are
forgotten."""

BEAT_SECONDS = 1.0
"""Time between two heartbeats."""

ALIVE_MS = 3000
"""Milliseconds for which a heartbeat is valid."""

CACHED_SECONDS = 600
"""TTL, in seconds, of a query's vector in Redis."""


@step
def search_beat(*, workers: Key, channel: str, holds: int) -> None:
    """Send a worker's heartbeat."""


class WaitingRequests:
    """The requests that a worker has received and not yet answered."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._requests: dict[str, deque[tuple[float, VersionedRequest]]] = {}
        """Requests by site, oldest first, each with the event loop's time at which its caller gives up."""
        self._had: dict[str, int] = {}
        """Characters embedded for each site. The site with the fewest is served next."""
        self._level = 0
        """`_had` of the last site served, before it was served. A site that begins to wait has at least this value, so
        that no site can accumulate credit while it sends nothing."""

    def __len__(self) -> int:
        return sum(map(len, self._requests.values()))

    def hear(self, now: float) -> None:
        """Queue the requests that the listener has received."""
        for message in filter(None, self._listener.heard()):
            requested = decode_request(message)
            site = requested.request.site
            if site not in self._requests:
                self._requests[site] = deque()
                self._had[site] = max(self._level, self._had.get(site, 0))
            self._requests[site].append((now + requested.request.wait, requested))

    def take(self, now: float) -> tuple[list[VersionedRequest], list[VersionedRequest]]:
        """Remove and return the requests to answer together, and those beyond MAX_WAITING_REQUESTS, which are too late.

        The late ones are the oldest of the sites with the most requests. Expired requests are dropped.
        """
        late = [self._pop(max(self._requests, key=self._length))[1] for _ in range(len(self) - MAX_WAITING_REQUESTS)]
        taken: list[VersionedRequest] = []
        characters = 0
        while self._requests and len(taken) < REQUESTS_AT_ONCE:
            site = min(self._requests, key=self._had.__getitem__)
            gives_up, requested = self._requests[site][0]
            if gives_up > now:
                size = 0 if requested.vector else len(requested.request.text)
                characters += size
                if taken and characters > BATCH_CHARACTERS:
                    break
                taken.append(requested)
                self._level = self._had[site]
                self._had[site] += max(1, size)
            self._pop(site)
        if len(self._had) > REMEMBERED_SITES:
            self._had = {site: self._had[site] for site in self._requests}
        return taken, late

    def _length(self, site: str) -> int:
        return len(self._requests[site])

    def _pop(self, site: str) -> tuple[float, VersionedRequest]:
        """Remove and return the oldest request of a site."""
        oldest = self._requests[site].popleft()
        if not self._requests[site]:
            del self._requests[site]
        return oldest


class AnswerBatch(NamedTuple):
    """Requests, with the data for their answers."""

    requests: Sequence[VersionedRequest]
    late: Sequence[VersionedRequest]
    version: IndexVersion | None
    vectors: Mapping[str, bytes]
    """Vectors by text, with numbers of the type that the version uses."""


class WorkerServer:
    """Answers the requests to one worker."""

    def __init__(self, store: SearchStore, embedder: Embedder, memory: MemoryReplica) -> None:
        self._store = store.main
        self._keys = store.keys
        self._embedder = embedder
        self._memory = memory
        self._versions = store.versions
        self._name = os.urandom(8).hex()
        self._listeners: list[Listener] = []
        """One listener for each service."""
        self._beats: dict[Service, float] = dict.fromkeys(get_args(Service), -math.inf)
        """The event loop's time at which the next heartbeat of each service is due."""
        self._version: IndexVersion | None = None
        """The index version in use when it was last read."""
        self._uncached: dict[str, bytes] = {}
        """Vectors to cache in Redis, by the text of the query. They are written with the next heartbeat, because an
        answer sent together with them would wait for the disk."""

    async def run(self, stop: asyncio.Event) -> None:
        """Answer until `stop` is set."""
        async with asyncio.TaskGroup() as services:
            for service in get_args(Service):
                services.create_task(self._serve(service, stop))

    def beat_soon(self) -> None:
        """Send heartbeats now. Call this when the model has been loaded: this worker may offer more than before."""
        self._beats = dict.fromkeys(self._beats, -math.inf)
        for listener in self._listeners:
            listener.hear(b"")

    async def _serve(self, service: Service, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        channel = self._keys.requests(service, self._name)
        replying: asyncio.Task[None] | None = None
        with await self._store.wakeups.listen(channel) as listener, woken_by(stop, listener):
            self._listeners.append(listener)
            waiting = WaitingRequests(listener)
            while not stop.is_set():
                with _failures_logged(service):
                    if loop.time() >= self._beats[service]:
                        self._beats[service] = loop.time() + BEAT_SECONDS
                        await self._beat(service, channel)
                    replying = await self._answer(service, waiting, replying)
                if not waiting and not stop.is_set():  # `_answer` may have taken the wake-up that `stop` sent
                    await listener.wait(self._beats[service] - loop.time())
            with _failures_logged(service):
                await self._store.command("ZREM", self._keys.workers(service), channel)
                replying = await self._answer(service, waiting, replying)
                while waiting:  # requests that came before the stop
                    replying = await self._answer(service, waiting, replying)
            if replying:
                await replying

    async def _answer(
        self, service: Service, waiting: WaitingRequests, replying: asyncio.Task[None] | None
    ) -> asyncio.Task[None] | None:
        """Prepare the answers to some of the requests, wait for `replying`, and begin to send the answers.

        Returns the task that sends them, so that the model can already work on the next requests meanwhile.
        """
        loop = asyncio.get_running_loop()
        waiting.hear(loop.time())
        requests, late = waiting.take(loop.time())
        answered = AnswerBatch(requests, late, *await self._vectors(requests))
        if replying:
            await replying
        return loop.create_task(self._reply(service, answered)) if requests or late else None

    async def _beat(self, service: Service, channel: str) -> None:
        self._version = await self._versions.current()
        if self._offers(service):
            await self._store.run(search_beat(workers=self._keys.workers(service), channel=channel, holds=ALIVE_MS))
        uncached, self._uncached = self._uncached, {}
        await self._store.run_all(
            [("SET", self._keys.query_vector(text), made, "EX", CACHED_SECONDS) for text, made in uncached.items()]
        )

    def _offers(self, service: Service) -> bool:
        """Return whether this worker has what the service needs for the index version in use."""
        return self._memory.ready if service == "hits" else is_made_by(self._embedder.model, self._version)

    async def _vectors(self, requests: Sequence[VersionedRequest]) -> tuple[IndexVersion | None, dict[str, bytes]]:
        """Return the version in use and the vectors of the requests' texts; None and no vectors if this worker's model
        does not make vectors of that version."""
        if any(each.version != (self._version.name if self._version else "") for each in requests):
            self._version = await self._versions.current()
        version = self._version
        if version is None or not is_made_by(self._embedder.model, version):
            return None, {}
        prefix = version.name.encode() + b" "
        vectors: dict[str, bytes] = {}
        for sent_with, cached, request in requests:
            remembered = self._uncached.get(request.text, b"")
            if cached and sent_with == version.name:
                vectors[request.text] = cached
            elif remembered.startswith(prefix):
                vectors[request.text] = remembered.removeprefix(prefix)
        unknown = list({each.request.text for each in requests} - vectors.keys())
        made = await self._embedder.queries(unknown) if unknown else []
        for text, vector in zip(unknown, made, strict=True):
            vectors[text] = converted(vector, "float32", version.scalar)
            self._uncached[text] = prefix + vectors[text]
        return version, vectors

    async def _reply(self, service: Service, answered: AnswerBatch) -> None:
        """Publish answers. Late requests get an empty answer."""
        requests, late, version, vectors = answered
        replies = [(each.request, WorkerReply()) for each in late]
        with _failures_logged(service):
            if service == "hits":
                replies += await asyncio.gather(
                    *(self._found(each.request, version, vectors.get(each.request.text)) for each in requests)
                )
            else:
                for each in requests:
                    vector = version and QueryVector(version.name, vectors[each.request.text])
                    replies.append((each.request, WorkerReply(vector)))
            await self._store.run_all(
                [("SPUBLISH", request.channel, request.id + encode(reply)) for request, reply in replies]
            )

    async def _found(
        self, request: WorkerRequest, version: IndexVersion | None, vector: bytes | None
    ) -> tuple[WorkerRequest, WorkerReply]:
        """Return a request with its answer, the matches in memory."""
        if request.search is None:
            return request, WorkerReply()
        comparable = None
        if version and vector and version.name == self._memory.version:
            comparable = converted(vector, version.scalar, "float32")
        return request, WorkerReply(found=await self._memory.find(request.search, comparable))


@contextmanager
def _failures_logged(service: Service) -> Generator[None]:
    """Log a failure of the block and suppress it. The callers get no answer and search by text."""
    try:
        yield
    except StoreUnavailable:
        pass  # the connection logs it
    except Exception:
        log.exception("search request not answered", service=service)
