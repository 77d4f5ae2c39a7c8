"""Measures what the largest permitted request of each operation costs the node: the figures of docs/threat-model.md.

    python -m bench.worst [--count 20]

Sends each request `--count` times, one after the other, to a whole node (one web process, a worker, an embedded
Redis). Prints the CPU time of each part per request, including the worker's follow-up work, and the growth of
Redis' memory per request. Limits are off. On a busy machine the figures are larger, by a third at most.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import meter, node
from bench.client import request
from bench.entities import Created, created
from bench.payload import encoded, prose, sentence
from bench.server import Server, Unfit, ask

MIB = 1024 * 1024

LARGE = 50
"""Number of largest threads, and of largest replies to one thread, that exist before: half of what a page can show."""

Make = Callable[[int], bytes]


def post(path: str, body: object) -> bytes:
    return request("POST", path, encoded(body))


def always(wire: bytes) -> Make:
    return lambda _number: wire


async def made(server: Server, path: str, body: object) -> Created:
    """Send a POST and return what it created. Raises Unfit if it is refused."""
    status, answer = await ask(server, post(path, body), 30)
    if status >= 300:
        raise Unfit(f"{path}: {status} {answer[:200]!r}")
    return created(answer)


async def weigh(server: Server, name: str, count: int, make: Make) -> None:
    before = await meter.settled(server)
    held = meter.redis_memory(server)
    for number in range(count):
        status, answer = await ask(server, make(number), 30)
        if status >= 500:
            raise Unfit(f"{name}: {status} {answer[:200]!r}")
    used = (await meter.settled(server)).since(before)
    web, worker, redis = (1000 * used.cpu.get(role, 0.0) / count for role in ("web", "worker", "redis"))
    kept = (meter.redis_memory(server) - held) / count / 1024
    print(f"| {name} | {web:.1f} | {worker:.1f} | {redis:.1f} | {kept:.0f} |", flush=True)


async def requests(server: Server) -> Sequence[tuple[str, Make]]:
    """Create what the requests need, and return the largest request of each operation."""
    thread = (await made(server, "/api/v1/board", {"title": "A long thread", "body": prose(0, 20_000)})).id
    for number in range(LARGE):
        await made(server, f"/api/v1/board/{thread}/replies", {"body": prose(number, 20_000)})
        await made(server, "/api/v1/board", {"title": sentence(number), "body": prose(number, 20_000)})
    session = (await made(server, "/api/v1/sessions", {})).session_id
    tasks = [
        (await made(server, "/api/v1/tasks", {"publisher_id": "p", "title": sentence(number)})).id
        for number in range(200)
    ]
    claims = [(await made(server, f"/api/v1/tasks/{task}/claim", {"assignee_id": "a"})).claim_token for task in tasks]
    objects = b'{"a":' + b"[" + b",".join([b"{}"] * 300_000) + b"]}"
    long = "x" * (MIB - 200)
    message = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": prose(1, MIB - 2000)}]}}
    return (
        ("relay, public, 1 MiB", lambda n: post("/api/v1/relay", {"message": prose(n, MIB - 100)})),
        ("relay, 1 MiB of small objects (refused)", always(request("POST", "/api/v1/relay", objects))),
        (
            "board thread, 20,000 characters",
            lambda n: post("/api/v1/board", {"title": sentence(n), "body": prose(n, 20_000)}),
        ),
        ("reply, 20,000 characters", lambda n: post(f"/api/v1/board/{thread}/replies", {"body": prose(n, 20_000)})),
        ("read of a thread, 50 replies of 20,000", always(request("GET", f"/api/v1/board/{thread}"))),
        ("list of 50 threads of 20,000", always(request("GET", "/api/v1/board?limit=100"))),
        (
            "search, limit 50",
            lambda n: post(
                "/api/v1/board/search", {"query": f"zebra qqqqq{n} {sentence(n)}", "limit": 50, "threshold": 0.1}
            ),
        ),
        ("search page", lambda n: request("GET", f"/board?q=zebra+qqqqq{n}")),
        (
            "task, description of 20,000",
            lambda n: post("/api/v1/tasks", {"publisher_id": "p", "title": "t", "description": prose(n, 20_000)}),
        ),
        ("claim (lost)", lambda n: post(f"/api/v1/tasks/{tasks[n]}/claim", {"assignee_id": "b"})),
        (
            "complete, result of 1 MiB",
            lambda n: post(
                f"/api/v1/tasks/{tasks[n]}/complete", {"claim_token": claims[n], "result_payload": {"text": long}}
            ),
        ),
        ("session", always(post("/api/v1/sessions", {"ttl_seconds": 60}))),
        (
            "session line, 65,536 characters",
            always(post(f"/api/v1/sessions/{session}/messages", {"body": long[:65536]})),
        ),
        ("session poll, 30 lines of 65,536", always(request("GET", f"/api/v1/sessions/{session}/messages"))),
        ("message:send, 1 MiB", always(post("/api/v1/message:send", message))),
        ("home page", always(request("GET", "/"))),
        ("thread page", always(request("GET", f"/board/{thread}"))),
        ("openapi.json", always(request("GET", "/openapi.json"))),
        ("unknown path", always(request("GET", "/nothing/here"))),
    )


async def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with node.running(Path(folder), {}) as server:
            print("| Request | web ms | worker ms | Redis ms | kept kB |\n|---|---|---|---|---|")
            for name, make in await requests(server):
                await weigh(server, name, count, make)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What the largest permitted request of each operation costs.")
    parser.add_argument("--count", type=int, default=20, help="requests of each kind")
    asyncio.run(main(parser.parse_args().count))
