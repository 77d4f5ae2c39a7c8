"""A2A message tasks in Redis: a hash each, and a sorted set for their context, in the context's partition.

A context that the node named is open to whoever knows its id, which nobody can guess. What a client names itself,
such as `default`, others may name too: each client address has a context of its own under that name.
"""

from asyncio import gather
from collections.abc import Sequence
from typing import Literal, cast

import msgspec

from node.config import Limit
from node.store import Store, ids, keys
from node.store.decoding import code_of, fields_of
from node.store.idempotency import IdempotencyKey
from node.store.limits import Taken, window
from node.store.scripts import script

ACCEPT = script("message_accept")

ELSEWHERE = Limit(0, 1)
"""The limit of a message whose context is in another partition than its client: it was counted before."""

NO_TASK = "-"
"""Stands for the task in the record of a key whose task is in another partition."""

Fields = dict[bytes, bytes]


class KeptMessage(msgspec.Struct, frozen=True):
    """How an accept ended. `taken` counts only if the limit was counted here."""

    kind: Literal["kept", "replayed", "limited", "conflict"]
    taken: Taken
    id: str
    created_at: int = 0


class MessageStore:
    """Logs messages and reads them back."""

    def __init__(self, store: Store, idempotency_ttl: int, kept_days: float) -> None:
        """`kept_days`: how long a message task can be read, and its context after its newest task."""
        self._store = store
        self._idempotency_ms = idempotency_ttl * 1000
        self._kept_ms = round(kept_days * 86_400_000)

    async def accept(
        self,
        context_id: str,
        client: str,
        limit: Limit,
        idempotency: IdempotencyKey | None,
        fields: Sequence[str | bytes],
        *,
        is_new: bool,
    ) -> KeptMessage:
        """Log a message in its context's partition; `is_new` says that the node has just named the context.

        Raises StoreUnavailable.
        """
        partition = ids.context_home(context_id, client)
        shared, own = _contexts(context_id, client)
        task_id = ids.unlisted_id(partition)
        home = ids.home_of(client)
        if idempotency and partition != home and not await self._bind(idempotency, home):
            return KeptMessage("conflict", Taken(True, 0, 0), "")
        task = keys.task(task_id)
        counted_here = bool(limit.count)
        reply = cast(
            "list[bytes | int]",
            await self._store.run(
                ACCEPT,
                [
                    keys.rate(partition, "message", client) if counted_here else task,
                    keys.idempotency(partition, idempotency.scope) if idempotency else task,
                    task,
                    shared,
                    shared if is_new else own,
                ],
                [
                    *window(limit),
                    idempotency.digest if idempotency else "",
                    self._idempotency_ms,
                    task_id,
                    self._kept_ms,
                    *fields,
                ],
            ),
        )
        kind = cast("Literal['kept']", code_of(reply))
        taken = Taken.of(*reply[1:4])
        if kind == "kept":
            return KeptMessage(kind, taken, task_id, cast("int", reply[4]))
        return KeptMessage(kind, taken, cast("bytes", reply[4]).decode() if len(reply) > 4 else task_id)

    async def _bind(self, idempotency: IdempotencyKey, home: int) -> bool:
        """Bind an Idempotency-Key to its body in the client's partition; False if it was used for another.

        The script keeps the record where the context is, and would not see what the key made in another one.
        Here it reads like the script's own, with no task: to the script any other body is a conflict, too.
        """
        key, bound = keys.idempotency(home, idempotency.scope), f"{idempotency.digest} {NO_TASK}"
        before = await self._store.command("SET", key, bound, "NX", "GET", "PX", self._idempotency_ms)
        return before is None or before == bound.encode()

    async def read(self, task_id: str) -> Fields:
        """The fields of a task of any kind; none for an unknown id. Raises StoreUnavailable."""
        return fields_of(await self._store.command("HGETALL", keys.task(task_id)))

    async def context(self, context_id: str, client: str) -> str:
        """The key of a context as that client sees it. Raises StoreUnavailable."""
        shared, own = _contexts(context_id, client)
        return shared if shared == own or await self._store.command("EXISTS", shared) else own

    async def page(self, context: str, after: str, limit: int) -> list[tuple[str, Fields]] | None:
        """Up to `limit` tasks of a context, newest first, from the one after the task `after`.

        None if the context has no task of that id. Raises StoreUnavailable.
        """
        start = 0
        if after:
            rank = await self._store.command("ZREVRANK", context, after)
            if rank is None:
                return None
            start = cast("int", rank) + 1
        ids = await self._store.command("ZRANGE", context, start, start + limit - 1, "REV")
        names = [name.decode() for name in cast("list[bytes]", ids)]
        found = await gather(*map(self.read, names))
        return list(zip(names, found, strict=True))

    async def count(self, context: str, oldest: int) -> int:
        """How many tasks of a context are not older than `oldest` (ms). Raises StoreUnavailable."""
        return cast("int", await self._store.command("ZCOUNT", context, oldest, "+inf"))


def _contexts(context_id: str, client: str) -> tuple[str, str]:
    """The context of that id that all who know it share, which only the node begins, and the client's own one.

    The same twice if the node does not make such ids.
    """
    own = keys.context(context_id, client)
    return keys.shared_context(context_id) if ids.may_be_ours(context_id) else own, own
