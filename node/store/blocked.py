"""The list of networks and keys that the operator has blocked. `node.web.blocklist` refuses their requests."""

import msgspec
import structlog

from node.config.values import Network
from node.share.site import network_of
from node.store import Listener, Store, ids, keys
from node.store.clock import now_ms
from node.store.decoding import fields_of
from node.store.steps import Key, step

log = structlog.get_logger()


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Why a network or key is blocked, and for how long."""

    since: int
    """Milliseconds since 1970 by the clock of Redis; so is `until`."""
    until: int | None = None
    """When the block ends; None: when the operator unblocks it."""
    reason: str = ""
    who: str = ""


Blocked = Network | str
"""A network, or the thumbprint of a key."""


def blocked_named(name: str) -> Blocked:
    """Parse an address, a prefix or the thumbprint of a key, as an operator writes it. Raises ValueError, as
    `network_of` does."""
    return name if ids.is_address(name) and ids.is_of_key(name) else network_of(name)


@step
def client_block(*, blocked: Key, network: str, block: bytes) -> None:
    """Block a network or a key, or replace its block."""


class Blocklist:
    """Reads and changes the list. Every method raises StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def block(self, blocked: Blocked, seconds: int | None, reason: str, who: str) -> Block:
        """Block a network or key for `seconds` (None: until it is unblocked), replacing an earlier block."""
        now = await now_ms(self._store, keys.BLOCKED)
        until = now + seconds * 1000 if seconds else None
        block = Block(since=now, until=until, reason=reason, who=who)
        await self._store.run(
            client_block(blocked=keys.BLOCKED, network=str(blocked), block=msgspec.json.encode(block))
        )
        return block

    async def unblock(self, blocked: Blocked) -> bool:
        """Remove a network or key from the list. Returns False if it was not on the list."""
        removed = await self._store.command("HDEL", keys.BLOCKED, str(blocked))
        await self._store.command("SPUBLISH", keys.BLOCKED, "")
        return removed == 1

    async def read(self) -> tuple[dict[Blocked, Block], int]:
        """Return the blocks in force now, and the time of Redis (ms) at which they were read."""
        in_force, _, now = await self._read()
        return in_force, now

    async def forget_expired(self) -> None:
        """Delete expired entries, and entries that cannot be read."""
        _, ended, _ = await self._read()
        if ended:
            await self._store.command("HDEL", keys.BLOCKED, *ended)

    async def listen(self) -> Listener:
        """Return a listener that gets a message whenever the list changes."""
        return await self._store.wakeups.listen(keys.BLOCKED)

    async def _read(self) -> tuple[dict[Blocked, Block], list[bytes], int]:
        """Return the blocks in force, the names of all other entries, and the time of Redis (ms)."""
        entries = fields_of(await self._store.command("HGETALL", keys.BLOCKED))
        now = await now_ms(self._store, keys.BLOCKED) if entries else 0
        in_force: dict[Blocked, Block] = {}
        others: list[bytes] = []
        for name, value in entries.items():
            try:
                blocked, block = blocked_named(name.decode()), msgspec.json.decode(value, type=Block)
            except (ValueError, msgspec.DecodeError):
                log.warning("entry of the blocklist cannot be read", network=name.decode(errors="replace"))
                others.append(name)
                continue
            if block.until is None or block.until > now:
                in_force[blocked] = block
            else:
                others.append(name)
        return in_force, others, now
