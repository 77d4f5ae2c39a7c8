"""Checks that a process may work on the Redis of its settings: before it starts, or once Redis can be reached.

It may not if the data there belong to another node, have a schema that this version does not know, or are an unfinished
restore. If Redis does not serve at all, `diagnose` finds out why.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress

import msgspec
import structlog

from node.config import ConfigError, Settings
from node.store import Store, StoreUnavailable, connect
from node.store.address import locate
from node.store.identity import compare, identify
from node.store.link import NotReady, consult

log = structlog.stdlib.get_logger("node.run.redis_check")

LOOK_SECONDS = 0.25
"""Seconds between two attempts to reach a Redis that is not there yet."""

RESTORING = "restoring:{restore}"
"""Key that marks the data in a Redis as an unfinished restore. A repeated restore replaces what it finds, so no node
may write there until a restore has finished."""


async def check_redis(settings: Settings) -> bool:
    """Check now. Return False if Redis cannot be reached. Raises ConfigError if this process may not work on it."""
    async with await _connect(settings) as store:
        try:
            await identify(store, settings.secret)
            await _refuse_unfinished_restore(store)
        except StoreUnavailable as unavailable:
            reason = await diagnose(settings.redis_url, settings.store_timeout, str(unavailable))
            log.warning("redis is not there yet", reason=reason)
            return False
    return True


async def check_redis_when_there(settings: Settings) -> None:
    """Check as soon as Redis can be reached. Raises ConfigError as `check_redis`."""
    async with await _connect(settings) as store:
        while True:
            with suppress(StoreUnavailable):
                await identify(store, settings.secret)
                return await _refuse_unfinished_restore(store)
            await asyncio.sleep(LOOK_SECONDS)


async def schema_in_redis(settings: Settings) -> str:
    """Check without writing anything. Return the number of the schema; empty if Redis holds no node's data yet.

    Raises ConfigError, StoreUnavailable.
    """
    async with await _connect(settings) as store:
        schema = await compare(store, settings.secret)
        await _refuse_unfinished_restore(store)
    return schema


async def _refuse_unfinished_restore(store: Store) -> None:
    """Raise ConfigError if the data are an unfinished restore. Raises StoreUnavailable."""
    if await store.command("EXISTS", RESTORING):
        raise ConfigError(
            "a restore into this Redis is under way, or was interrupted: let it finish, or repeat `relay-node restore`"
        )


async def diagnose(url: str, timeout: float, otherwise: str) -> str:
    """Return why a Redis does not serve, for each server that the URL names.

    The reason may be wrong credentials, for instance, or that the server is a replica. `timeout`: seconds for each
    server. Returns `otherwise` if one of them does serve.
    """
    location = locate(url)
    access = msgspec.structs.replace(location.access, writes=not location.cluster)
    question = ("CLUSTER", "SLOTS") if location.cluster else ("PING",)
    said: list[str] = []
    for server in location.servers:
        try:
            answer = await consult(server, access, timeout, *question)
        except (OSError, UnicodeError, NotReady) as error:
            said.append(f"{server}: {str(error) or type(error).__name__}")
        else:
            if not isinstance(answer, Exception):
                return otherwise
            said.append(f"{server}: {answer}")
    return "; ".join(said)


def out_of_reach(url: str, timeout: float, unavailable: StoreUnavailable) -> ConfigError:
    """Return the error of a command whose Redis is out of reach: a temporary failure. `timeout` as in `diagnose`."""
    error = ConfigError(f"Redis is out of reach: {asyncio.run(diagnose(url, timeout, str(unavailable)))}")
    error.status = os.EX_TEMPFAIL
    return error


class LateCheck:
    """Runs the check in a process that had to start without Redis: in a thread, as soon as Redis can be reached."""

    def __init__(self, settings: Settings, end: Callable[[], None]) -> None:
        """`end` is called to end the process if it must not work on that Redis."""
        self._settings = settings
        self._end = end
        self._error: ConfigError | None = None

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._check, daemon=True).start()

    def raise_error(self) -> None:
        """Raise the ConfigError because of which the check has called `end`, if it has."""
        if self._error:
            raise self._error

    def _check(self) -> None:
        try:
            asyncio.run(check_redis_when_there(self._settings))
        except ConfigError as error:
            self._error = error
            self._end()


async def _connect(settings: Settings) -> Store:
    return await connect(settings.redis_url, timeout=settings.store_timeout, max_in_flight=16)
