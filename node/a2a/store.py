"""A2A message tasks in Redis: a hash for each task and a sorted set for each context, in the context's partition.

A context whose id the node generated is open to everybody who knows the id, which cannot be guessed. An id that a
client chose, such as `default`, may be chosen by others too, so each client has its own context under that id.
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
"""Placeholder for the task id in the record of an Idempotency-Key whose task is in another partition."""

PAGE_BYTES = 1024 * 1024
"""Size of the messages on a page of tasks, in bytes. The page ends with the message that reaches it."""

FACTS = (b"kind", b"context_id", b"created_at")
SAID = (*FACTS, b"message")
"""The fields of a task: FACTS without its message, SAID with it. A message may have a mebibyte."""

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
    """Log one message under its context, once for each Idempotency-Key, and count it against the limit."""


class MessageStore:
    """Logs messages and reads them. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, idempotency_ttl: int, kept_days: float) -> None:
        """`kept_days`: retention of a message task, and of a context after its newest task.

        `idempotency_ttl`: in seconds.
        """
        self._store = store
        self._limits = LimitStore(store)
        self._idempotency_ms = idempotency_ttl * 1000
        self._kept_ms = round(kept_days * DAY_MS)

    async def accept(
        self, rate: RateLimit, context_id: str, message: bytes, idempotency: IdempotencyKey | None, *, is_new: bool
    ) -> tuple[str, int | None]:
        """Log a message in its context's partition. Return the id of its task and the creation time (ms).

        The time is None if the message was logged before. `is_new`: whether the node has just generated the context id.
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
        """Count a message against its client's limit, which is in another partition than the context."""
        if rate.limit.count:
            rate.settle(await self._limits.take("message", rate.client, rate.limit))

    async def _bind(self, idempotency: IdempotencyKey, home: int) -> bool:
        """Bind an Idempotency-Key to its body in the client's partition; return False if it was used with another body.

        The script keeps its own record in the context's partition, so it cannot see that the key was used in a context
        of another partition. This record has the same format but names no task. A script that finds it treats a request
        with another body as a conflict.
        """
        key, bound = keys.idempotency(home, idempotency.scope), f"{idempotency.digest} {NO_TASK}"
        before = await self._store.command("SET", key, bound, "NX", "GET", "PX", self._idempotency_ms)
        return before is None or before == bound.encode()

    async def read(self, task_id: str, *, said: bool) -> Fields:
        """Return the fields of a message task or contract, with its message if `said`; an empty dict for an unknown id.

        The message is not read unless it is shown, since the client is charged only for the answer.
        """
        names = SAID if said else FACTS
        return fields_named(names, cast("Values", await self._store.command("HMGET", keys.task(task_id), *names)))

    async def context(self, context_id: str, client: str) -> str:
        """Return the key of the context that this id means to that client."""
        shared, own = _contexts(context_id, client)
        return shared if shared == own or await self._store.command("EXISTS", shared) else own

    async def page(
        self, context: str, after: str, limit: int, oldest: int, *, said: bool
    ) -> tuple[list[tuple[str, Fields]] | None, str, int]:
        """Return a page of up to `limit` tasks of a context, newest first, with their messages if `said`.

        The page begins after the task `after`; it is None if the context has no such task. Also returns the id of the
        page's last task if more follow, else an empty string, and the number of tasks not older than `oldest` (ms).
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
    """Return how many messages fit on a page: all up to and including the one that reaches PAGE_BYTES."""
    before = accumulate(sizes, initial=0)
    return sum(size < PAGE_BYTES for _, size in zip(sizes, before, strict=False))


def _contexts(context_id: str, client: str) -> tuple[Key, Key]:
    """Return the keys of two contexts with this id: the shared one and the client's private one.

    Only the node creates a shared context, and everybody who knows the id may use it. If the node does not generate ids
    of this form, both keys are that of the private context.
    """
    own = keys.context(context_id, client)
    return keys.shared_context(context_id) if ids.may_be_ours(context_id) else own, own
