"""Whose data a Redis holds: that of which node, known by its secret, and in which schema.

Both are written at the first start and compared at every later one. Otherwise tokens issued under another secret, and
records of another schema, would be answered wrongly until somebody noticed. docs/operations.md says what this means for
upgrades ("Versions on one Redis").
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
"""Number of the present schema. It rises when an older version could no longer work on what this one writes; fields and
keys that older versions pass over do not count."""

OLDEST = 1
"""Number of the oldest schema that this version can work on. Version 1.0.0 wrote no number; its schema is 1."""


@step
def node_identify(*, identity: Key, schema: int, oldest: int, secret: str, version: str) -> None:
    """Says whose data this Redis holds, and claims it for this node if it is nobody's yet."""


def fingerprint(secret: str) -> str:
    """A digest that tells one secret from another and does not help to guess it; empty for no secret."""
    return hmac.digest(secret.encode(), b"relay-node fingerprint", "sha256").hex()[:32] if secret else ""


async def identify(store: Store, secret: str) -> None:
    """Compare, and write what is not known yet. `secret` is empty in a process that has none.

    Raises ConfigError if this process must not work on that Redis, or cannot, and StoreUnavailable.
    """
    await _refuse_lone_member(store)
    mine = fingerprint(secret)
    asking = node_identify(identity=keys.IDENTITY, schema=SCHEMA, oldest=OLDEST, secret=mine, version=VERSION)
    try:
        known = cast("list[bytes]", await store.run(asking))
    except CommandFailed as failed:
        raise ConfigError(
            f"this Redis refuses what a node needs ({failed}): it has to be of version 7 or later, and "
            "deploy/redis/users.acl has the rights of its users"
        ) from failed
    _judge(known, mine)


def _judge(known: Sequence[bytes | None], mine: str) -> str:
    """The schema of the data; empty if it is not known.

    `known`: the schema, whose secret it is, and the first version that wrote that schema. Raises ConfigError if a
    process with the fingerprint `mine` must not work on it.
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
    """Let the next process that starts say whose data this is. Raises StoreUnavailable."""
    await store.command("HDEL", keys.IDENTITY, "secret")


async def compare(store: Store, secret: str) -> str:
    """Compare without writing anything; the number of the schema, empty if the Redis holds no node's data yet.

    Raises ConfigError, StoreUnavailable.
    """
    await _refuse_lone_member(store)
    known = await store.command("HMGET", keys.IDENTITY, "schema", "secret", "schema_since")
    return _judge(cast("list[bytes | None]", known), fingerprint(secret))


async def _refuse_lone_member(store: Store) -> None:
    """Raise ConfigError if a URL for a single server leads to a member of a cluster, which has some of the keys only.

    A server whose user may not ask is taken for a single one. Raises StoreUnavailable.
    """
    if not isinstance(store, SingleStore):
        return
    with suppress(CommandFailed):
        facts = cast("bytes", await store.command("INFO", "cluster"))
        if b"cluster_enabled:1" in facts:
            raise ConfigError("this Redis is a member of a cluster: write redis+cluster:// in RELAY_REDIS_URL")
