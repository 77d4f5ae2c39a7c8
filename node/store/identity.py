"""The identity of the data in a Redis: the node that owns it, identified by its secret, and the schema.

Both are written at the first start and compared at every later one. Otherwise the node would give wrong answers about
tokens issued under another secret, and about records of another schema, until somebody noticed. docs/operations.md says
what this means for upgrades ("Versions on one Redis").
"""

import hmac
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

from node import VERSION
from node.config import ConfigError
from node.store import keys
from node.store.errors import CommandFailed
from node.store.single import SingleStore
from node.store.steps import Key, step
from node.store.store import Store

SCHEMA = 1
"""Number of the present schema. It rises when older versions could no longer work on what this version writes; new
fields and keys that older versions ignore do not raise it."""

OLDEST = 1
"""Number of the oldest schema that this version can work on. Version 1.0.0 writes no number; its schema is 1."""


@step
def node_identify(*, identity: Key, schema: int, oldest: int, secret: str, version: str) -> None:
    """Return whose data this Redis holds, and claim it for this node if it has no owner yet."""


def fingerprint(secret: str) -> str:
    """Return a digest that distinguishes secrets and does not help to guess them; empty for an empty secret."""
    return hmac.digest(secret.encode(), b"relay-node fingerprint", "sha256").hex()[:32] if secret else ""


async def identify(store: Store, secret: str) -> None:
    """Compare the identity of Redis with this process, and write the parts that are not set yet.

    `secret`: empty in a process that has none. Raises ConfigError if this process must not or cannot work on that
    Redis, StoreUnavailable.
    """
    await _refuse_lone_member(store)
    mine = fingerprint(secret)
    asking = node_identify(identity=keys.IDENTITY, schema=SCHEMA, oldest=OLDEST, secret=mine, version=VERSION)
    try:
        known = cast("list[bytes]", await store.run(asking))
    except CommandFailed as failed:
        raise ConfigError(
            f"this Redis refuses what a node needs ({failed}): it has to be of version 7 or later, and "
            "deploy/redis/users.acl lists the permissions that its users need"
        ) from failed
    _judge(known, mine)


def _judge(known: Sequence[bytes | None], mine: str) -> str:
    """Return the schema of the data; empty if unknown.

    `known`: the schema, the fingerprint of the owner's secret, and the first version that wrote that schema. Raises
    ConfigError if a process whose secret has the fingerprint `mine` must not work on the data.
    """
    schema, whose, since = ((text or b"").decode() for text in known)
    if whose and mine and whose != mine:
        raise ConfigError(
            "this Redis holds the data of a node with another RELAY_SECRET: give this process the same one, or a Redis "
            "of its own"
        )
    if schema and not OLDEST <= int(schema) <= SCHEMA:
        age, advice = ("newer", "run one of those") if int(schema) > SCHEMA else ("older", "upgrade step by step")
        first = f" (since {since})" if since else ""
        raise ConfigError(
            f"this Redis holds data of schema {schema}, written by {age} versions{first}; this one knows schema "
            f"{OLDEST} to {SCHEMA}: {advice}, or restore a backup that fits"
        )
    return schema


async def forget_secret(store: Store) -> None:
    """Remove the owner, so that the next process that starts becomes the owner. Raises StoreUnavailable."""
    await store.command("HDEL", keys.IDENTITY, "secret")


async def compare(store: Store, secret: str) -> str:
    """Compare like `identify`, without writing. Returns the number of the schema; empty if Redis has no data of a node.

    Raises ConfigError, StoreUnavailable.
    """
    await _refuse_lone_member(store)
    known = await store.command("HMGET", keys.IDENTITY, "schema", "secret", "schema_since")
    return _judge(cast("list[bytes | None]", known), fingerprint(secret))


async def _refuse_lone_member(store: Store) -> None:
    """Raise ConfigError if the URL is for a single server but leads to a member of a cluster, which has only some keys.

    If the user may not run INFO, the server is assumed to be a single one. Raises StoreUnavailable.
    """
    if not isinstance(store, SingleStore):
        return
    with suppress(CommandFailed):
        facts = cast("bytes", await store.command("INFO", "cluster"))
        if b"cluster_enabled:1" in facts:
            raise ConfigError("this Redis is a member of a cluster: write redis+cluster:// in RELAY_REDIS_URL")
