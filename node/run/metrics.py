"""The metrics process, which reports on the other processes of its instance. It runs if RELAY_ADMIN_PORT is set.

It is a separate process so that its failures stop no other process, and so that it answers while another one is stuck.
It adds up the counts that the others write to a shared folder, and asks Redis for the rest.
"""

import asyncio
import signal
import threading
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import cast

import structlog

from node.agents.lists import AgentLists
from node.artifacts.store import ArtifactStore
from node.config import Settings
from node.observe.certificate import Certificate
from node.observe.metrics.gauges import Figures, Gauges, disk_figures
from node.observe.metrics.server import AdminPages, Instance, MetricsServer
from node.observe.metrics.snapshots import Reading
from node.run.corpora import corpora_of
from node.run.reload import on_hangup
from node.search.indexing.queue import IndexQueue
from node.store import Store, connect, ids, keys
from node.store.lists import total_of
from node.store.search_keys import BOARD_KEYS

logger = structlog.get_logger()

MAX_IN_FLIGHT = 4096
"""Most calls to Redis that may be under way: more than a scrape makes."""


def feature_figures(store: Store) -> list[Figures]:
    """Return the figures of agents, artifacts and search, for `Gauges`."""
    agents, manifests = AgentLists(store), ArtifactStore(store, 0, 0)
    queues = [IndexQueue(store, corpus.keys) for corpus in corpora_of(store)]

    async def of_agents() -> list[Reading]:
        counts, due, age = await agents.figures()
        return [
            *(Reading("relay_agents", (liveness,), count) for liveness, count in counts.items()),
            Reading("relay_agent_checks_due", (), due),
            Reading("relay_agent_check_age_seconds", (), age),
        ]

    async def of_artifacts() -> list[Reading]:
        counting = total_of(store, (("ZCARD", keys.artifacts(partition)) for partition in range(ids.PARTITIONS)))
        count, held_bytes = await asyncio.gather(counting, manifests.total())
        return [Reading("relay_artifacts", (), count), Reading("relay_artifact_bytes", (), held_bytes)]

    async def of_search() -> list[Reading]:
        lengths, by_meaning = await asyncio.gather(
            asyncio.gather(*(queue.lengths() for queue in queues)),
            store.command("EXISTS", BOARD_KEYS.workers("vectors")),
        )
        return [
            Reading("relay_search_queue", ("pending",), sum(pending for pending, _ in lengths)),
            Reading("relay_search_queue", ("backlog",), sum(backlog for _, backlog in lengths)),
            Reading("relay_search_by_meaning", (), cast("int", by_meaning)),
        ]

    return [of_agents, of_artifacts, of_search]


async def report(settings: Settings, roles: list[str], pages: AdminPages) -> None:
    """Serve metrics and `pages` until SIGTERM or SIGINT. Raises OSError if the port is taken."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    # The process inherits the signal mask of a parent that blocks these.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
    on_hangup(settings, lambda _: None, logs=False)
    connected = partial(connect, timeout=settings.store_timeout, max_in_flight=MAX_IN_FLIGHT)
    names = f"{settings.admin_names},{settings.admin_host}"
    certificate = Certificate(settings.public_url)

    def here() -> list[Reading]:
        return [*disk_figures(settings), *certificate.figures()]

    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(await connected(settings.redis_url))
        searched = None
        if settings.search_url:
            searched = await stack.enter_async_context(await connected(settings.search_url))
        gauges = Gauges(settings, store, feature_figures(store), searched)
        instance = Instance(Path(settings.metrics_dir), store, gauges.read, roles, names, here)
        stack.callback(asyncio.create_task(certificate.watch(stop)).cancel)
        with MetricsServer((settings.admin_host, settings.admin_port), instance, pages, loop) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            logger.info("metrics served", host=settings.admin_host, port=settings.admin_port)
            await stop.wait()
            await asyncio.to_thread(server.shutdown)
