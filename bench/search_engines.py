"""Measures the speed and size of both search engines: `python -m bench.search_engines [--threads 1000 10000]`.

For each number of threads, measures RediSearch with FLAT and with HNSW, and the memory of a worker. Each is
filled with real vectors of short texts and queried with vectors of other texts. Reports the cost of one search
without the embedding of its query, the cost to index and to keep one thread, and the recall@10 compared with an
exact search. Prints Markdown. Starts a separate Redis for each measurement of RediSearch.
"""

import argparse
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import uvloop

from bench.search_data import Matrix, sentences, vectors
from node.embedding.choice import load
from node.observe.log import configure
from node.observe.memory import redis_memory
from node.run.corpora import corpora_of
from node.run.embedded_redis import find_search
from node.search.corpus import OWN, Post, PostRef
from node.search.engines.memory import MemoryIndex, PostDocument
from node.search.engines.redisearch import QueryEngine
from node.search.index_versions import Algorithm, IndexVersion
from node.search.indexing.documents import Documents
from node.search.ranking import SearchRequest
from node.search.retrieval import EngineRetriever
from node.search.rpc.client import QueryVector, WorkerClient
from node.search.store import SearchStore
from node.search.work import SEARCHES_READING, SearchWork
from node.share.fair_semaphore import FairSemaphore
from node.store import Store, connect, ids
from node.store.search_keys import BOARD_KEYS
from node.text.terms import marks_of, terms_of
from tests.support.models import MODELS, exported_model
from tests.support.servers import RedisServer

QUERIES = 200
TOP = 10
AT_ONCE = 64
"""Number of threads that are indexed together."""


class Data(NamedTuple):
    """Threads and queries, with a vector for each."""

    ids: list[str]
    texts: list[str]
    matrix: Matrix
    queries: list[str]
    asked: Matrix

    def exact(self) -> list[set[str]]:
        """Return the ids of the ten nearest threads of each query, comparing it with every vector."""
        best = np.argsort(-(self.asked @ self.matrix.T), axis=1)[:, :TOP]
        return [{self.ids[place] for place in row} for row in best]


class KnownVectors(WorkerClient):
    """Stands in for the workers: returns query vectors that were made beforehand."""

    def __init__(self, store: Store, version: str, data: Data) -> None:
        super().__init__(store, BOARD_KEYS)
        self._known = {
            query: QueryVector(version, vector.astype("float16").tobytes())
            for query, vector in zip(data.queries, data.asked, strict=True)
        }

    async def vector_of(self, query: str, site: str = "") -> QueryVector | None:
        return self._known[query]


class Figures(NamedTuple):
    put_ms: float
    bytes_each: float
    seconds: list[float]
    recall: float

    def row(self, engine: str, threads: int) -> str:
        p50, p99 = np.quantile(self.seconds, [0.5, 0.99]) * 1000
        return (
            f"| {engine} | {threads:,} | {self.put_ms:.2f} | {self.bytes_each / 1000:.1f} "
            f"| {p50:.1f} | {p99:.1f} | {self.recall:.3f} |"
        )


def data_of(threads: int, pool: Sequence[str], matrix: Matrix) -> Data:
    names = [ids.new_id() for _ in range(threads)]
    queries = list(pool[-QUERIES:])
    return Data(names, list(pool[:threads]), matrix[:threads], queries, matrix[-QUERIES:])


async def redisearch(data: Data, algorithm: Algorithm) -> Figures:
    module = find_search()
    with redis("--loadmodule", str(module)) as server:
        store = await connect(server.url, timeout=30, max_in_flight=4096, required=True)
        version = IndexVersion("bench", "bench", data.matrix.shape[1], algorithm, 0, "float16")
        board, *_ = corpora_of(store)
        engine = QueryEngine(store, board)
        await engine.ensure_terms()
        await engine.ensure_vectors(version)
        before = await used(store)
        began = time.perf_counter()
        await fill(SearchStore(store, store, board).documents, version, data)
        put = (time.perf_counter() - began) / len(data.ids)
        size = (await used(store) - before) / len(data.ids)
        finder = EngineRetriever(engine, BOARD_KEYS, store, KnownVectors(store, "bench", data))
        readers = FairSemaphore(SEARCHES_READING)
        seconds: list[float] = []
        for query in data.queries:
            began = time.perf_counter()
            await finder.find(SearchRequest(query, TOP, 0.7), SearchWork("bench", readers))
            seconds.append(time.perf_counter() - began)
        found = [await engine.by_meaning("bench", vector.astype("float16").tobytes()) for vector in data.asked]
        await store.close()
    return Figures(
        put * 1000, size, seconds, recall(data, [[near.entity_id for near in nears[:TOP]] for nears in found])
    )


async def fill(index: Documents, version: IndexVersion, data: Data) -> None:
    """Index the threads as a worker does, AT_ONCE at a time: first their terms, then their vectors."""
    packed = data.matrix.astype("float16")
    for start in range(0, len(data.ids), AT_ONCE):
        places = range(start, min(start + AT_ONCE, len(data.ids)))
        await index.put([Post(data.ids[n], OWN, "", data.texts[n]) for n in places])
        await index.put_vectors(version, {(data.ids[n], "0.0"): packed[n].tobytes() for n in places}, {})


def memory(data: Data) -> Figures:
    index = MemoryIndex()
    before = resident()
    began = time.perf_counter()
    for thread, text, vector in zip(data.ids, data.texts, data.matrix, strict=True):
        terms = terms_of(text)
        index.put(PostDocument(PostRef(thread, OWN), " ".join(terms), marks_of(terms), {"0.0": vector.tobytes()}))
    put = (time.perf_counter() - began) / len(data.ids)
    size = (resident() - before) / len(data.ids)
    seconds: list[float] = []
    for query, vector in zip(data.queries, data.asked, strict=True):
        began = time.perf_counter()
        index.find(SearchRequest(query, TOP, 0.7), vector.tobytes())
        seconds.append(time.perf_counter() - began)
    none = [index.find(SearchRequest("zzzz", TOP, 0), vector.tobytes()).matches for vector in data.asked]
    return Figures(put * 1000, size, seconds, recall(data, [[match.entity_id for match in found] for found in none]))


def recall(data: Data, found: Sequence[Sequence[str]]) -> float:
    """Share of the ten nearest threads that were found, averaged over the queries."""
    return float(np.mean([len(wanted & set(got)) / TOP for wanted, got in zip(data.exact(), found, strict=True)]))


@contextmanager
def redis(*options: str) -> Generator[RedisServer]:
    with tempfile.TemporaryDirectory() as folder, RedisServer(Path(folder), *options) as server:
        yield server


async def used(store: Store) -> int:
    """Bytes that Redis has allocated."""
    [memory] = await redis_memory(store)
    return memory.allocated


def resident() -> int:
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m bench.search_engines", description=__doc__)
    asked.add_argument("--threads", type=int, nargs="+", default=[1000, 10_000], help="sizes of the board")
    configure("error")
    sizes: list[int] = sorted(asked.parse_args().threads)
    pool = sentences(sizes[-1] + QUERIES)
    matrix = vectors(load(exported_model(), MODELS), pool)
    print(
        "| engine | threads | put, ms | kB a thread | search p50, ms | p99 | recall@10 |\n|---|---|---|---|---|---|---|"
    )
    for size in sizes:
        data = data_of(size, pool, matrix)
        print(memory(data).row("memory of a worker", size), flush=True)
        if find_search():
            for algorithm in ("flat", "hnsw"):
                print((await redisearch(data, algorithm)).row(f"RediSearch, {algorithm}", size), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
