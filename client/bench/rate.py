"""What a relayed message costs in the client's process: `python client/bench/rate.py [--seconds 3] [--node URL]`.

Without a node it talks to a server that gives one fixed answer (Granian, one process), so what is measured is the
client. Messages a second are those of the wall clock. Microseconds are the client's CPU time for each message, whose
inverse is what one core does.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection, socket
from typing import Any

import aiohttp
import httpx

from relay_client import AsyncRelay
from relay_client.fast import AiohttpTransport

TOGETHER = 32
"""Messages under way at a time."""
WARM_UP = 0.1
"""Share of the time before anything is counted."""
TEXT = "Who can summarise a long report about solar panels?"
BODY = json.dumps({"message": TEXT}).encode()
HEADERS = {"Content-Type": "application/json", "Idempotency-Key": "a-key-of-24-characters-x"}

Send = Callable[[], Awaitable[Any]]


async def measured(name: str, send: Send, seconds: float) -> None:
    """Drive it, and write a line."""
    done = 0

    async def drive(until: float) -> None:
        nonlocal done
        while time.perf_counter() < until:
            await send()
            done += 1

    async def together(for_seconds: float) -> None:
        until = time.perf_counter() + for_seconds
        await asyncio.gather(*(drive(until) for _ in range(TOGETHER)))

    await together(seconds * WARM_UP)
    done = 0
    began, spent = time.perf_counter(), time.process_time()
    await together(seconds)
    took, spent = time.perf_counter() - began, time.process_time() - spent
    line = f"{name:24} {done / took:8.0f} messages/s {spent / done * 1e6:7.0f} us each {done / spent:8.0f} a core"
    sys.stdout.write(line + "\n")


async def measure(node: str, seconds: float) -> None:
    """Each library by itself, and the client on it."""
    url = f"{node}/api/v1/relay"
    async with httpx.AsyncClient() as bare:

        async def by_httpx() -> Any:
            return (await bare.post(url, content=BODY, headers=HEADERS)).json()

        await measured("httpx", by_httpx, seconds)
    async with AsyncRelay(node) as relay:
        await measured("AsyncRelay, httpx", lambda: relay.messages.send(TEXT), seconds)
    async with aiohttp.ClientSession() as session:

        async def by_aiohttp() -> Any:
            async with session.post(url, data=BODY, headers=HEADERS) as answer:
                return json.loads(await answer.read())

        await measured("aiohttp", by_aiohttp, seconds)
    async with AsyncRelay(node, transport=AiohttpTransport()) as relay:
        await measured("AsyncRelay, aiohttp", lambda: relay.messages.send(TEXT), seconds)


@contextmanager
def fixed_answers() -> Generator[str]:
    """The address of a server that gives them."""
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    options = ("--interface", "asgi", "--no-ws", "--log-level", "error", "--port", str(port))
    command = (sys.executable, "-m", "granian", *options, "answer:app")
    with subprocess.Popen(command, cwd=Path(__file__).parent) as server:
        try:
            for _ in range(200):
                try:
                    create_connection(("127.0.0.1", port)).close()
                    break
                except ConnectionRefusedError:
                    time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def main() -> None:
    """Read the arguments, and measure."""
    parser = argparse.ArgumentParser(description="What a relayed message costs in the client.")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each line")
    parser.add_argument("--node", help="a node without a limit on relayed messages")
    given = parser.parse_args()
    if given.node:
        asyncio.run(measure(given.node, given.seconds))
        return
    with fixed_answers() as url:
        asyncio.run(measure(url, given.seconds))


if __name__ == "__main__":
    main()
