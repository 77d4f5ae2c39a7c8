"""Board search: latency by meaning on a filled board, the recall of HNSW, how soon a new thread is found, how soon a
new worker searches by meaning, and the cost of the most expensive search compared with a usual one."""

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.client import Call
from bench.entities import created
from bench.lab import Lab
from bench.load import Calls
from bench.meter import age, settled, usage, vector_index, waiting_for_vectors
from bench.neighbours.attacks import hostile_threads
from bench.node import no_prefix
from bench.payload import Template, encoded
from bench.scenario import Scenario
from bench.server import Server, Unfit, ask
from bench.topics import question, thread

THREADS, THREADS_FULL = 2000, 10_000
RATE = 20.0
QUERIES = 200
TOP = 10
FOUND_WITHIN_SECONDS = 10.0  # for a new thread; after that the search has failed
INDEXED_WITHIN_SECONDS = 900.0  # for all threads, on a slow machine
SAMPLE = 64  # threads that are searched for, as a sample of all
MEANT = ("meaning", "both")
COSTED = 20  # searches of each kind whose cost is measured
USUAL_THREADS = 500  # beside the hostile ones
SCATTERED = "zebra weather translation planner storage"  # words that long texts contain, but never close together
FRESH_THREADS = {  # posted title, and the query that should find it
    "text": ("A zeppelin hovers above Reykjavik", "zeppelin Reykjavik"),
    "meaning": ("Mammoth bones were dug up by archaeologists", "prehistoric elephant skeleton excavation"),
}

BY_MEANING = "search by meaning, {threads:,} threads"
CEILING = "search, ceiling of 16 connections, {threads:,} threads"
RECALL = "recall@10 of hnsw against flat"
ANSWERED = "queries answered by meaning"
FRESH = "a new thread is found by {mode} after"
READY = "a search is by meaning after the worker's start"
COST = "CPU of {role} for {kind}"
USUAL, HOSTILE = "a usual search", "the most expensive search"

_search = Template("POST", "/api/v1/board/search")
_post = Template("POST", "/api/v1/board")


class Hit(msgspec.Struct):
    thread_id: str
    score: float
    mode: str


class Mode(msgspec.Struct):
    """How a search was answered: `both`, or `text` alone."""

    mode: str


class Hits(Mode):
    hits: list[Hit]


def query(number: int) -> bytes:
    return _search(encoded({"query": question(number), "limit": TOP, "threshold": 0.0}))


class Board:
    """Requests that post threads, and the ids of those posted, by number."""

    def __init__(self) -> None:
        self.ids: dict[int, str] = {}

    def post(self, number: int) -> Call:
        title, body = thread(number)

        def answered(status: int, answer: bytes) -> None:
            if status == 201:
                self.ids[number] = created(answer).id

        return Call(_post(encoded({"title": title, "body": body})), "", (201,), answered)

    async def indexed(self, node: Server) -> None:
        """Wait until all threads have their vectors. Raises Unfit if that takes too long."""
        step = max(1, len(self.ids) // SAMPLE)
        missing: set[int] = set(range(0, len(self.ids), step))
        deadline = time.monotonic() + INDEXED_WITHIN_SECONDS
        while (waiting := waiting_for_vectors(node, "board")) or missing:
            if time.monotonic() > deadline:
                raise Unfit(
                    f"after {INDEXED_WITHIN_SECONDS:.0f} s {waiting} threads have no vectors, and {len(missing)} of "
                    f"{SAMPLE} are not found by meaning"
                )
            await asyncio.sleep(1.0)
            missing = {number for number in sorted(missing) if not await self._found(node, number)}

    async def _found(self, node: Server, number: int) -> bool:
        _, words = thread(number)
        hits = await found(node, words, TOP)
        return any(hit.thread_id == self.ids[number] and hit.mode in MEANT for hit in hits)


async def searched(node: Server, words: str, limit: int) -> Hits:
    """Search for these words and return the answer."""
    _, body = await ask(node, _search(encoded({"query": words, "limit": limit, "threshold": 0.0})))
    return msgspec.json.decode(body, type=Hits)


async def found(node: Server, words: str, limit: int) -> list[Hit]:
    """Search for these words and return the hits."""
    return (await searched(node, words, limit)).hits


async def at_usual_rate(lab: Lab, node: Server, query: Callable[[int], bytes], what: str) -> Calls:
    """Measure searches and record how many were answered by meaning. Return the searches."""
    modes: Counter[str] = Counter()

    def answered(status: int, body: bytes) -> None:
        if status == 200:
            modes[msgspec.json.decode(body, type=Mode).mode] += 1

    queries = lab.numbered(lambda number: Call(query(number), answered=answered))
    await lab.at_rate(node, queries, what, lab.options.rate or RATE)
    lab.point(ANSWERED, 100 * modes["both"] / max(1, modes.total()), "%")
    return queries


async def run(lab: Lab) -> None:
    threads = THREADS_FULL if lab.options.full else THREADS
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        async with lab.node("serve", no_prefix, Path(home), RELAY_VECTOR_INDEX="flat") as node:
            await _filled(lab, node, threads)
            queries = await at_usual_rate(lab, node, query, BY_MEANING.format(threads=threads))
            if lab.options.rate is not None:
                return
            await lab.at_ceiling(node, queries, CEILING.format(threads=threads), connections=16)
            await _freshness(lab, node)
            exact = await _answers(node) if lab.options.full else []
        if lab.options.url:
            return
        await _restart(lab, Path(home))
        if exact:
            await _recall(lab, Path(home), exact, threads)
    await _costs(lab)


async def _restart(lab: Lab, home: Path) -> None:
    """Measure how soon after its worker's start a node searches by meaning, given an index and an exported model."""
    async with lab.node("serve", no_prefix, home, RELAY_VECTOR_INDEX="flat") as node:
        answered = time.monotonic()
        # A different question each time: Redis caches the vectors of questions.
        while not any(hit.mode in MEANT for hit in await found(node, question(next(lab.numbers)), TOP)):
            if time.monotonic() - answered > FOUND_WITHIN_SECONDS:
                raise Unfit(f"no search by meaning {FOUND_WITHIN_SECONDS:.0f} s after a start")
            await asyncio.sleep(0.02)
        lab.point(READY, age(node, "worker"), "s")


async def _recall(lab: Lab, home: Path, exact: list[list[Hit]], threads: int) -> None:
    """Have the same vectors indexed by HNSW, ask again, and record the recall."""
    async with lab.node("serve", no_prefix, home, RELAY_VECTOR_INDEX="hnsw") as node:
        deadline = time.monotonic() + INDEXED_WITHIN_SECONDS
        while vector_index(node, "board") != "hnsw" or waiting_for_vectors(node, "board"):
            if time.monotonic() > deadline:
                raise Unfit(f"recall of hnsw: the index in use is {vector_index(node, 'board')}")
            await asyncio.sleep(1.0)
        lab.point(RECALL, recall(exact, await _answers(node)), "", f"{QUERIES} queries, {threads:,} threads")


async def _filled(lab: Lab, node: Server, threads: int) -> None:
    """Post the threads and wait until they are found by meaning."""
    board = Board()
    await lab.fill(node, board.post, threads, "threads")
    await board.indexed(node)


async def _answers(node: Server) -> list[list[Hit]]:
    """Return the hits of QUERIES questions. An answer by text alone is asked for again, as it did not use the index."""
    answers: list[list[Hit]] = []
    for number in range(QUERIES):
        deadline = time.monotonic() + FOUND_WITHIN_SECONDS
        while (hits := await searched(node, question(number), TOP)).mode == "text":
            if time.monotonic() > deadline:
                raise Unfit(f"no search by meaning within {FOUND_WITHIN_SECONDS:.0f} s")
        answers.append(hits.hits)
    return answers


def recall(exact: list[list[Hit]], found: list[list[Hit]]) -> float:
    """Share of hits that score at least as well as the last exact one, since hits of equal score may change places."""
    least = [min((hit.score for hit in hits), default=0.0) - 1e-4 for hits in exact]
    wanted = sum(len(hits) for hits in exact)
    good = sum(sum(hit.score >= floor for hit in hits) for hits, floor in zip(found, least, strict=True))
    return good / max(1, wanted)


async def _freshness(lab: Lab, node: Server) -> None:
    """Measure how long after its acknowledgement a thread is found by its own words, and by a query by meaning."""
    for mode, (title, words) in FRESH_THREADS.items():
        _, answer = await ask(node, _post(encoded({"title": title, "body": title + "."})))
        thread_id = created(answer).id
        start = time.monotonic()
        while time.monotonic() - start < FOUND_WITHIN_SECONDS:
            hits = await found(node, words, 1)
            if hits and hits[0].thread_id == thread_id and hits[0].mode in {mode, "both"}:
                lab.point(FRESH.format(mode=mode), time.monotonic() - start, "s")
                break
            await asyncio.sleep(0.02)
        else:
            lab.point(FRESH.format(mode=mode), FOUND_WITHIN_SECONDS, "s", "not found by then")


async def _costs(lab: Lab) -> None:
    """Measure the CPU time of a usual search, and of one that looks through long texts in vain.

    The node has no model and searches by text, so that the texts need no vectors first.
    """
    async with lab.node(RELAY_EMBEDDING_MODEL="none") as node:
        await lab.fill(node, Board().post, USUAL_THREADS, "threads")
        await hostile_threads(lab, node)
        hostile = ({"query": f"{SCATTERED} qqqqq{n}", "limit": 50, "threshold": 0.0} for n in range(COSTED))
        usual = ({"query": question(number)} for number in range(COSTED))
        for kind, queries in ((USUAL, usual), (HOSTILE, hostile)):
            await settled(node)
            before = usage(node)
            for asked in queries:
                status, _ = await ask(node, _search(encoded(asked)), timeout=30.0)
                if status != 200:
                    raise Unfit(f"{kind}: {status}")
            used = usage(node).since(before).cpu
            for role in ("web", "redis"):
                lab.point(COST.format(role=role, kind=kind), 1000 * used.get(role, 0.0) / COSTED, "ms")


SCENARIO = Scenario("search", "search the board by meaning", run)
