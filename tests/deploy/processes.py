"""The parts of a node as they run in production, each a process of its own on a Redis that somebody else keeps."""

import http.client
import json
import signal
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.support.node_under_test import SECRET, SIGNING_KEY
from tests.support.nodes import NodeProcess
from tests.support.servers import PATIENCE, until

WEB = (sys.executable, "-m", "node", "web")
WORKER = (sys.executable, "-m", "node", "worker")
HELLO = "Hello, is anybody there who can read this?"
STOPPED_WITHIN = 10.0  # s, DESIGN 2


@contextmanager
def web_node(folder: Path, redis_url: str, command: Sequence[str] = WEB, **settings: str) -> Generator[NodeProcess]:
    """A `relay-node web` that takes requests, with one web process."""
    with NodeProcess(folder, command) as node:
        start(node, redis_url, **settings)
        until_ready(node)
        yield node


def start(node: NodeProcess, redis_url: str, **settings: str) -> None:
    """Start a part on that Redis without waiting."""
    node.start(
        **{
            "RELAY_REDIS_URL": redis_url,
            "RELAY_SECRET": SECRET,
            "RELAY_SIGNING_KEY": SIGNING_KEY,
            "RELAY_WORKERS": "1",
            "RELAY_LIMIT_RELAY": "0",
            **settings,
        }
    )


def until_ready(node: NodeProcess) -> None:
    until(lambda: status(node.port, "/ready") == 200, f"{node.url} is ready")


def status(port: int, path: str) -> int:
    """The status of a GET on a connection of its own; 0 if nobody answers."""
    try:
        return call(port, "GET", path)[0]
    except (OSError, http.client.HTTPException):
        return 0


def call(
    port: int, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    """One request on a connection of its own: status, headers, body. Raises OSError, HTTPException."""
    with ExitStack() as stack:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        stack.callback(link.close)
        sent = None if body is None else json.dumps(body)
        link.request(method, path, sent, {"content-type": "application/json"} | (headers or {}))
        answer = link.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


def relay(port: int, text: str, **headers: str) -> dict[str, Any]:
    """What the node acknowledges. Raises OSError, HTTPException and ValueError, if it refuses."""
    number, _, body = call(port, "POST", "/api/v1/relay", {"message": text, "public": False}, headers)
    if number != 200:
        raise ValueError(f"{number}: {body!r}")
    return json.loads(body)


def ends(node: NodeProcess) -> int:
    """The status with which a process exits that is told to stop."""
    node.signal(signal.SIGTERM)
    return node.wait()
