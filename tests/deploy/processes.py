"""The parts of a node as they run in production, each as a separate process on a Redis that another process runs."""

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
    """Run a `relay-node web` with one web process that takes requests."""
    with NodeProcess(folder, command) as node:
        start(node, redis_url, **settings)
        until_ready(node)
        yield node


def start(node: NodeProcess, redis_url: str, **settings: str) -> None:
    """Start a part of a node on that Redis without waiting."""
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
    """Return the status of a GET on a new connection, or 0 if nobody answers."""
    try:
        return call(port, "GET", path)[0]
    except (OSError, http.client.HTTPException):
        return 0


def call(
    port: int, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    """Send one request on a new connection. Returns status, headers and body. Raises OSError, HTTPException."""
    with ExitStack() as stack:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        stack.callback(link.close)
        sent = None if body is None else json.dumps(body)
        link.request(method, path, sent, {"content-type": "application/json"} | (headers or {}))
        answer = link.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


def relay(port: int, text: str, **headers: str) -> dict[str, Any]:
    """Relay a message, and return the acknowledgement. Raises OSError, HTTPException, and ValueError for a refusal."""
    number, _, body = call(port, "POST", "/api/v1/relay", {"message": text, "public": False}, headers)
    if number != 200:
        raise ValueError(f"{number}: {body!r}")
    return json.loads(body)


def ends(node: NodeProcess) -> int:
    """Tell a process to stop, and return its exit status."""
    node.signal(signal.SIGTERM)
    return node.wait()
