"""Board search by meaning: latency on a filled board, recall of HNSW, and how soon a new thread is found."""

import asyncio
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgspec

from bench import node as nodes
from bench.client import Call
from bench.lab import Lab
from bench.meter import vector_index
from bench.payload import Template, encoded
from bench.scenario import Scenario
from bench.server import Server, ask
from bench.topics import question, thread

THREADS, THREADS_FULL = 2000, 10_000
RATE = 20.0
QUERIES = 200
TOP = 10
PATIENCE = 10.0  # seconds for a new thread to be found

BY_MEANING = "search by meaning, {threads:,} threads"
CEILING = "search, ceiling of 16 connections, {threads:,} threads"
RECALL = "recall@10 of hnsw against flat"
ANSWERED = "queries answered by meaning"
FRESH = "a new thread is found by {mode} after"

_search = Template("POST", "/api/v1/board/search")
_post = Template("POST", "/api/v1/board")


class Hit(msgspec.Struct):
    thread_id: str
    score: float
    mode: str


class Hits(msgspec.Struct):
    hits: list[Hit]
    mode: str


def query(number: int, limit: int = TOP) -> bytes:
    return _search(encoded({"query": question(number), "limit": limit, "threshold": 0.0}))


def post(number: int) -> Call:
    title, body = thread(number)
    return Call(_post(encoded({"title": title, "body": body})), "", (201,))


async def run(lab: Lab) -> None:
    threads = THREADS_FULL if lab.options.full else THREADS
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        home = Path(place)
        async with lab.node(home=home, RELAY_VECTOR_INDEX="flat") as node:
            await lab.fill(node, post, threads, "threads")
            await nodes.settled(node)
            modes: Counter[str] = Counter()

            def answered(status: int, body: bytes) -> None:
                if status == 200:
                    modes[msgspec.json.decode(body, type=Hits).mode] += 1

            queries = lab.numbered(lambda number: Call(query(number), answered=answered))
            await lab.at_rate(node, queries, BY_MEANING.format(threads=threads), lab.options.rate or RATE)
            lab.point(ANSWERED, 100 * modes["both"] / max(1, modes.total()), "%")
            if lab.options.rate is not None:
                return
            await lab.at_ceiling(node, queries, CEILING.format(threads=threads), connections=16)
            await _freshness(lab, node)
            exact = await _answers(node) if lab.options.full else []
        if exact:
            async with lab.node(home=home, RELAY_VECTOR_INDEX="hnsw") as node:
                await nodes.settled(node)
                note = f"{QUERIES} queries, {threads:,} threads, index {vector_index(node)}"
                lab.point(RECALL, recall(exact, await _answers(node)), "", note)


async def _answers(node: Server) -> list[list[Hit]]:
    answers: list[list[Hit]] = []
    for number in range(QUERIES):
        _, body = await ask(node, query(number))
        answers.append(msgspec.json.decode(body, type=Hits).hits)
    return answers


def recall(exact: list[list[Hit]], found: list[list[Hit]]) -> float:
    """The share of hits that score at least as well as the last of the exact ones: equals may change places."""
    least = [min((hit.score for hit in hits), default=0.0) - 1e-4 for hits in exact]
    wanted = sum(len(hits) for hits in exact)
    good = sum(sum(hit.score >= floor for hit in hits) for hits, floor in zip(found, least, strict=True))
    return good / max(1, wanted)


async def _freshness(lab: Lab, node: Server) -> None:
    """How long after its acknowledgement a thread is found by its own words, and by a question about it."""
    marks = {"text": ("A zeppelin hovers above Reykjavik", "zeppelin Reykjavik"), "meaning": FAR_OFF}
    for mode, (title, words) in marks.items():
        await ask(node, _post(encoded({"title": title, "body": title + "."})))
        start = time.monotonic()
        while time.monotonic() - start < PATIENCE:
            _, body = await ask(node, _search(encoded({"query": words, "limit": 1, "threshold": 0.0})))
            hits = msgspec.json.decode(body, type=Hits).hits
            if hits and hits[0].mode in {mode, "both"} and await _titled(node, hits[0].thread_id, title):
                lab.point(FRESH.format(mode=mode), time.monotonic() - start, "s")
                break
            await asyncio.sleep(0.02)
        else:
            lab.point(FRESH.format(mode=mode), PATIENCE, "s", "not found by then")


FAR_OFF = ("Mammoth bones were dug up by archaeologists", "prehistoric elephant skeleton excavation")


async def _titled(node: Server, thread_id: str, title: str) -> bool:
    _, body = await ask(node, f"GET /api/v1/board/threads/{thread_id} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return title.encode() in body


SCENARIO = Scenario("search", "search the board by meaning", run)
