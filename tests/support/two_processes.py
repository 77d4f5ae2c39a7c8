"""Two web processes on one Redis, as an operator starts them. A request may land on either."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.limits import NO_LIMITS_GIVEN
from tests.support.node_under_test import SECRET
from tests.support.nodes import NodeProcess
from tests.support.servers import RedisServer, until


@contextmanager
def two_processes(folder: Path, **settings: str) -> Generator[NodeProcess]:
    """A running node without limits, since all clients of a test have one address."""
    command = (sys.executable, "-m", "node", "web")
    with RedisServer(folder / "redis") as redis, NodeProcess(folder / "data", command) as node:
        node.start(RELAY_REDIS_URL=redis.url, RELAY_SECRET=SECRET, **NO_LIMITS_GIVEN, **settings)
        until(node.answers, f"{node.url} answers")
        yield node


def process_of(request_id: str) -> str:
    """Return the process that gave an answer with this X-Request-Id, which begins with the name of the process."""
    return request_id[:10]
