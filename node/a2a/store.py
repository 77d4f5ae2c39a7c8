"""A2A message tasks in Redis: a hash for each, and a sorted set for each context, in the context's partition.

A context that the node named is open to whoever knows its id, which nobody can guess. A name that a client has chosen,
such as `default`, others may choose too: each client address has a context of its own under that name.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, cast

from node.common.refusal import Refused
from node.config import NO_LIMIT, Limit
from node.store import Store, ids, keys
from node.store.decoding import fields_named, names_of
from node.store.idempotency import IdempotencyKey, Once
from node.store.limits import DAY_MS, LimitState, LimitStore, RateLimit
from node.store.steps import Key, Rest, step

NO_TASK = "-"
"""Stands for the task in the record of an Idempotency-Key whose task is in another partition."""

PAGE_BYTES = 1024 * 1024
"""Bytes of messages on a page of tasks, which ends with the one that reaches it."""

FACTS = (b"kind", b"context_id", b"created_at")
SAID = (*FACTS, b"message")
"""The fields of a task, without and with its message, which may have a mebibyte."""

Fields = dict[bytes, bytes]
Values = list[bytes | None]


@step
def message_accept(
    *,
    rate: Key,
    once: Once,
    task: Key,
    shared: Key,
    own: Key,
    limit: Limit,
    id: str,  # noqa: A002 - the script's word
    ttl: int,
    fields: Rest,
) -> None:
    """One message of a context, counted and kept once."""


class MessageStore:
    """Logs messages and reads them back. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, idempotency_ttl: int, kept_days: float) -> None:
        """`kept_days`: how long a message task can be read, and its context after its newest task."""
        self._store = store
        self._limits = LimitStore(store)
        self._idempotency_ms = idempotency_ttl * 1000
        self._kept_ms = round(kept_days * DAY_MS)

    async def accept(
        self, rate: RateLimit, context_id: str, message: bytes, idempotency: IdempotencyKey | None, *, is_new: bool
    ) -> tuple[str, int | None]:
        """Log a message in its context's partition: the id of its task, and when it was made (ms).

        The time is None if the message was logged before. `is_new` says that the node has just named the context.
        Raises Refused `limit.exceeded`, `idempotency.conflict`.
        """
        client = rate.client
        partition, home = ids.context_home(context_id, client), ids.home_of(client)
        shared, own = _contexts(context_id, client) if not is_new else (keys.shared_context(context_id),) * 2
        task_id = ids.unlisted_id(partition)
        task = keys.task(task_id)
        if partition != home:
            await self._count(rate)
            if idempotency and not await self._bind(idempotency, home):
                raise Refused("idempotency.conflict")
        reply = await self._store.run(
            message_accept(
                rate=keys.rate(home, "message", client) if partition == home else task,
                once=Once.of(idempotency, partition, task, self._idempotency_ms),
                task=task,
                shared=shared,
                own=own,
                limit=rate.limit if partition == home else NO_LIMIT,
                id=task_id,
                ttl=self._kept_ms,
                fields=("context_id", context_id, "message", message),
            )
        )
        kind, allowed, remaining, reset_ms, *made = cast("list[Any]", reply)
        if partition == home:
            rate.settle(LimitState.of(allowed, remaining, reset_ms))
        match kind:
            case b"kept":
                return task_id, made[0]
            case b"replayed":
                return made[0].decode(), None
            case _:
                raise Refused("idempotency.conflict")

    async def _count(self, rate: RateLimit) -> None:
        """Count a message in its client's limit, which is in another partition than the context."""
        if rate.limit.count:
            rate.settle(await self._limits.take("message", rate.client, rate.limit))

    async def _bind(self, idempotency: IdempotencyKey, home: int) -> bool:
        """Bind an Idempotency-Key to its body in the client's partition; False if it was used for another.

        The script keeps its record in the context's partition, and would not see what the key made in another context.
        This record reads like the script's, but names no task, so that the script takes any other body for a conflict.
        """
        key, bound = keys.idempotency(home, idempotency.scope), f"{idempotency.digest} {NO_TASK}"
        before = await self._store.command("SET", key, bound, "NX", "GET", "PX", self._idempotency_ms)
        return before is None or before == bound.encode()

    async def read(self, task_id: str, *, said: bool) -> Fields:
        """The fields of a task of any kind, with its message or not; none for an unknown id.

        What is not shown is not read: nobody would be charged for it.
        """
        names = SAID if said else FACTS
        return fields_named(names, cast("Values", await self._store.command("HMGET", keys.task(task_id), *names)))

    async def context(self, context_id: str, client: str) -> str:
        """The key of a context as that client sees it."""
        shared, own = _contexts(context_id, client)
        return shared if shared == own or await self._store.command("EXISTS", shared) else own

    async def page(
        self, context: str, after: str, limit: int, oldest: int, *, said: bool
    ) -> tuple[list[tuple[str, Fields]] | None, str, int]:
        """Up to `limit` tasks of a context, newest first, from the one after the task `after`, with messages or not.

        They are None if the context has no task `after`. Also returns the last task of the page if others follow it,
        else an empty text, and how many tasks are not older than `oldest` (ms).
        """
        start = 0
        if after:
            rank = await self._store.command("ZREVRANK", context, after)
            if rank is None:
                return None, "", 0
            start = cast("int", rank) + 1
        found, total = await self._store.run_all(
            [("ZRANGE", context, start, start + limit - 1, "REV"), ("ZCOUNT", context, oldest, "+inf")]
        )
        names = names_of(found)
        if said:
            sizes = await self._store.run_all([("HSTRLEN", keys.task(name), "message") for name in names])
            names = names[: _fitting(cast("list[int]", sizes))]
        fields = SAID if said else FACTS
        rows = await self._store.run_all([("HMGET", keys.task(name), *fields) for name in names])
        last = names[-1] if start + len(names) < cast("int", total) and names else ""
        read = [fields_named(fields, row) for row in cast("list[Values]", rows)]
        return list(zip(names, read, strict=True)), last, cast("int", total)


def _fitting(sizes: Sequence[int]) -> int:
    """How many messages fit on a page: up to the one that reaches PAGE_BYTES."""
    before = accumulate(sizes, initial=0)
    return sum(size < PAGE_BYTES for _, size in zip(sizes, before, strict=False))


def _contexts(context_id: str, client: str) -> tuple[Key, Key]:
    """The context that all who know the id share, which only the node begins, and the client's own of that name.

    They are the same if the node does not make such ids.
    """
    own = keys.context(context_id, client)
    return keys.shared_context(context_id) if ids.may_be_ours(context_id) else own, own
