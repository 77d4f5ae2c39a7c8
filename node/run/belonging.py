"""Whether this process may work on the Redis of its settings: checked before it starts, or once Redis can be reached.

And why Redis does not serve, where it does not.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

import msgspec
import structlog

from node.config import ConfigError, Settings
from node.store import Store, StoreUnavailable, connect
from node.store.address import locate
from node.store.identity import identify, identify_when_there, look
from node.store.link import NotReady, consult

log = structlog.stdlib.get_logger("node.run.belonging")


RESTORING = "restoring:{restore}"
"""Key that marks what the Redis holds as an unfinished restore. That may be started again, and then replaces what it
finds, so no node may write there before."""


async def belongs(settings: Settings) -> bool:
    """Check now; False if Redis cannot be reached at present.

    Raises ConfigError if it is another node's, or half restored.
    """
    store = await _connect(settings)
    try:
        await identify(store, settings.secret)
        await _refuse_unfinished_restore(store)
    except StoreUnavailable as unavailable:
        reason = await trouble(settings.redis_url, settings.store_timeout, str(unavailable))
        log.warning("redis is not there yet", reason=reason)
        return False
    finally:
        await store.close()
    return True


async def belongs_when_there(settings: Settings) -> None:
    """Check as soon as Redis can be reached. Raises ConfigError as `belongs`."""
    store = await _connect(settings)
    try:
        await identify_when_there(store, settings.secret)
        with suppress(StoreUnavailable):  # it has gone again within a millisecond
            await _refuse_unfinished_restore(store)
    finally:
        await store.close()


async def schema_of(settings: Settings) -> str:
    """What `look` finds. Raises ConfigError, StoreUnavailable."""
    store = await _connect(settings)
    try:
        schema = await look(store, settings.secret)
        await _refuse_unfinished_restore(store)
    finally:
        await store.close()
    return schema


async def _refuse_unfinished_restore(store: Store) -> None:
    """Raises ConfigError, StoreUnavailable."""
    if await store.command("EXISTS", RESTORING):
        raise ConfigError(
            "a restore into this Redis is under way, or was interrupted: let it end, or repeat `relay-node restore`"
        )


async def trouble(url: str, timeout: float, otherwise: str) -> str:
    """Why a Redis does not serve, for each server that the URL names: wrong credentials, for instance, or a replica.

    `otherwise`: what to return if one of them does serve. `timeout`: seconds for each server.
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


class LateCheck:
    """Checks in a thread, as soon as Redis can be reached, in a process that had to start without it."""

    def __init__(self, settings: Settings, end: Callable[[], None]) -> None:
        """`end` is called to end the process if it must not work on that Redis."""
        self._settings = settings
        self._end = end
        self._error: ConfigError | None = None

    def start(self) -> None:
        """Check in the background from now on."""
        threading.Thread(target=self._check, daemon=True).start()

    def judge(self) -> None:
        """Raise ConfigError if the check is why the process has ended."""
        if self._error:
            raise self._error

    def _check(self) -> None:
        try:
            asyncio.run(belongs_when_there(self._settings))
        except ConfigError as error:
            self._error = error
            self._end()


async def _connect(settings: Settings) -> Store:
    return await connect(settings.redis_url, timeout=settings.store_timeout, max_in_flight=16)
