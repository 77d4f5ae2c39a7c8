"""The workers' side of `client`: vectors of queries, and matches in an index in memory.

Short requests that come together are embedded together; one whose caller has stopped waiting is not answered. Next
comes always the site for which least has been embedded. A worker shows by a heartbeat each second that it can answer;
three seconds after the last one it is not asked any more.
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
"""Requests answered together. Those to be embedded make one batch at most, so that nobody waits for a second one."""

REMEMBERED_SITES = 1024
"""Sites for which it is remembered how much was embedded; when there are more, those not waiting are forgotten."""

BEAT_SECONDS = 1.0
"""Time between two heartbeats."""

ALIVE_MS = 3000
"""How long a heartbeat holds."""

CACHED_SECONDS = 600
"""How long the vector of a query is kept in Redis."""


@step
def search_beat(*, workers: Key, channel: str, holds: int) -> None:
    """A worker's heartbeat."""


class WaitingRequests:
    """The requests that a worker has received and not answered."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._requests: dict[str, deque[tuple[float, VersionedRequest]]] = {}
        """By site, oldest first, with the time of the event loop at which the caller gives up."""
        self._had: dict[str, int] = {}
        """Characters embedded for each site; the one that has had least is next."""
        self._level = 0
        """The `_had` of the site that was served last. A new site starts there at least, so that no site saves up."""

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
        """Requests to answer together, and older ones that are too many to be answered in time."""
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
        """Remove the oldest request of a site."""
        oldest = self._requests[site].popleft()
        if not self._requests[site]:
            del self._requests[site]
        return oldest


class AnswerBatch(NamedTuple):
    """Requests with what is known for their answers."""

    requests: Sequence[VersionedRequest]
    late: Sequence[VersionedRequest]
    version: IndexVersion | None
    vectors: Mapping[str, bytes]
    """By text, with the numbers of that version."""


class WorkerServer:
    """Answers for one worker."""

    def __init__(self, store: SearchStore, embedder: Embedder, memory: MemoryReplica) -> None:
        self._store = store.main
        self._keys = store.keys
        self._embedder = embedder
        self._memory = memory
        self._versions = store.versions
        self._name = os.urandom(8).hex()
        self._listeners: list[Listener] = []
        """One for each service."""
        self._beats: dict[Service, float] = dict.fromkeys(get_args(Service), -math.inf)
        """When the next heartbeat of each service is due, in the event loop's time."""
        self._version: IndexVersion | None = None
        """The index version in use, as it was when it was last looked at."""
        self._uncached: dict[str, bytes] = {}
        """Vectors to be kept in Redis, by the text of the query. They are written with the next heartbeat: an answer
        that is sent with them would wait for the disk."""

    async def run(self, stop: asyncio.Event) -> None:
        """Answer until `stop` is set."""
        async with asyncio.TaskGroup() as services:
            for service in get_args(Service):
                services.create_task(self._serve(service, stop))

    def beat_soon(self) -> None:
        """Send heartbeats now: the model has been loaded, so this worker may offer more than before."""
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
                if not waiting and not stop.is_set():  # a wake-up by `stop` during a heartbeat has been heard above
                    await listener.wait(self._beats[service] - loop.time())
            with _failures_logged(service):
                await self._store.command("ZREM", self._keys.workers(service), channel)
                replying = await self._answer(service, waiting, replying)
                while waiting:  # requests from before the stop
                    replying = await self._answer(service, waiting, replying)
            if replying:
                await replying

    async def _answer(
        self, service: Service, waiting: WaitingRequests, replying: asyncio.Task[None] | None
    ) -> asyncio.Task[None] | None:
        """Answer some of the requests, once those before are answered (`replying`).

        Returns the task that sends the answers: they go out while the model works on the next requests.
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
        """Whether this worker has what the service needs for the index version in use."""
        return self._memory.ready if service == "hits" else is_made_by(self._embedder.model, self._version)

    async def _vectors(self, requests: Sequence[VersionedRequest]) -> tuple[IndexVersion | None, dict[str, bytes]]:
        """The version in use if the model here makes its vectors, and those of the requests' texts."""
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
        """Publish answers; those to the late requests are empty."""
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
        """The matches in memory."""
        if request.search is None:
            return request, WorkerReply()
        comparable = None
        if version and vector and version.name == self._memory.version:
            comparable = converted(vector, version.scalar, "float32")
        return request, WorkerReply(found=await self._memory.find(request.search, comparable))


@contextmanager
def _failures_logged(service: Service) -> Generator[None]:
    """If the block fails, log that and go on; the callers, who get no answer, search by text."""
    try:
        yield
    except StoreUnavailable:
        pass  # the connection logs it
    except Exception:
        log.exception("search request not answered", service=service)
