"""Reports in Redis: one stream in each partition, read by the operators."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

from node.common.refusal import Refused
from node.common.timestamps import timestamp
from node.config import Limit
from node.feedback.model import Report
from node.share.site import SITE_SHARE, site_of
from node.store import Arg, Store, ids, keys
from node.store.decoding import entries_of, entry_id, text
from node.store.idempotency import IdempotencyKey, Once
from node.store.limits import LimitState, RateLimit
from node.store.steps import Key, Rest, step

KEPT_REPORTS = 2000
"""Reports kept in each partition, approximately; the oldest are dropped first. All reports of a site go to one
partition, so each site is limited, too."""

PAGE_SIZE = 50
"""Reports that are read from a partition at a time."""


@step
def feedback_add(
    *,
    rate: Key,
    site: Key,
    once: Once,
    feedback: Key,
    limit: Limit,
    site_count: int,
    feedback_id: str,
    keep: int,
    fields: Rest,
) -> None:
    """Count one report of a client, and keep it once."""


class FeedbackStore:
    """Adds and lists reports."""

    def __init__(self, store: Store, idempotency_ttl: int) -> None:
        self._store = store
        self._idempotency_ms = idempotency_ttl * 1000

    async def add(self, rate: RateLimit, idempotency: IdempotencyKey | None, fields: Sequence[str]) -> tuple[str, bool]:
        """Keep a report in the client's partition. Return its id, and whether it was kept before.

        Raises Refused `limit.exceeded`, `idempotency.conflict`, StoreUnavailable.
        """
        partition = ids.home_of(rate.client)
        stream = keys.feedback(partition)
        feedback_id = ids.new_id(partition)
        reply = await self._store.run(
            feedback_add(
                rate=keys.rate(partition, "feedback", rate.client),
                site=keys.rate(partition, "feedback", site_of(rate.client)),
                once=Once.of(idempotency, partition, stream, self._idempotency_ms),
                feedback=stream,
                limit=rate.limit,
                site_count=rate.limit.count * SITE_SHARE,
                feedback_id=feedback_id,
                keep=KEPT_REPORTS,
                fields=fields,
            )
        )
        kind, *rest = cast("list[Any]", reply)
        if kind == b"conflict":
            raise Refused("idempotency.conflict")
        if kind == b"replayed":
            return rest[0].decode(), True
        rate.settle(LimitState.of(*rest))
        return feedback_id, False

    async def reports(self) -> AsyncIterator[Report]:
        """Yield all reports that are kept, newest first. Raises StoreUnavailable."""
        pages = await self._store.run_all([_newest(partition, "+") for partition in range(ids.PARTITIONS)])
        waiting = {partition: page for partition, page in enumerate(map(_entries, pages)) if page}
        while waiting:
            partition = max(waiting, key=lambda partition: entry_id(waiting[partition][-1][0]))
            entry, fields = waiting[partition].pop()
            yield _report(fields)
            if not waiting[partition]:
                waiting[partition] = _entries(await self._store.command(*_newest(partition, f"({entry}")))
                if not waiting[partition]:
                    del waiting[partition]


def _newest(partition: int, end: str) -> Sequence[Arg]:
    """Return the command that reads the newest reports of a partition, up to the entry `end`."""
    return ("XREVRANGE", keys.feedback(partition), end, "-", "COUNT", PAGE_SIZE)


def _entries(page: object) -> list[tuple[str, dict[bytes, bytes]]]:
    """Return the ids and fields of the reports in a page, the newest last."""
    return entries_of(page)[::-1]


def _report(fields: dict[bytes, bytes]) -> Report:
    return Report(
        fields[b"id"].decode(),
        timestamp(int(fields[b"at"])),
        fields[b"category"].decode(),
        fields[b"text"].decode(),
        text(fields.get(b"contact_channel")),
    )
