"""Reports to the operators of the node (SPEC 4.7)."""

from asyncio import gather
from collections.abc import AsyncIterator

from node.common.refusal import Invalid, Refused
from node.common.timestamps import timestamp
from node.config import Limit
from node.feedback.model import NewFeedback, Report
from node.feedback.store import FeedbackStore, Fields, Received
from node.store import ids
from node.store.decoding import text
from node.store.idempotency import IdempotencyKey
from node.text.english import is_english
from node.text.lines import require_line
from node.text.readable import readable

PAGE = 50
"""Reports read from a partition at a time."""


class Feedback:
    """The service behind POST /api/v1/feedback."""

    def __init__(self, store: FeedbackStore) -> None:
        self._store = store

    async def add(self, client: str, limit: Limit, new: NewFeedback, idempotency: IdempotencyKey | None) -> Received:
        """Keep a report. Raises Invalid, Refused `language.not_english`, StoreUnavailable.

        The caller acts on the outcome: `limited` and `conflict` are refused.
        """
        words = readable(new.feedback_text)
        if not words.strip():
            raise Invalid.field("body", "feedback_text", msg="must hold more than white space")
        if not is_english(words):
            raise Refused("language.not_english")
        fields = ["text", words, "category", new.category or "general"]
        if new.contact_channel:
            require_line("contact_channel", new.contact_channel)
            fields += ["contact_channel", new.contact_channel]
        return await self._store.add(client, limit, idempotency, fields)

    async def reports(self) -> AsyncIterator[Report]:
        """All reports that are kept, newest first, for the operator. Raises StoreUnavailable."""
        pages = await gather(*(self._store.newest(partition, None, PAGE) for partition in range(ids.PARTITIONS)))
        waiting = {partition: page[::-1] for partition, page in enumerate(pages) if page}
        while waiting:
            newest = max(waiting, key=lambda partition: _order(waiting[partition][-1][0]))
            entry, fields = waiting[newest].pop()
            yield _report(fields)
            if not waiting[newest]:
                page = await self._store.newest(newest, entry, PAGE)
                waiting[newest] = page[::-1]
                if not page:
                    del waiting[newest]


def _order(entry: str) -> tuple[int, ...]:
    return tuple(map(int, entry.split("-")))


def _report(fields: Fields) -> Report:
    return Report(
        fields[b"id"].decode(),
        timestamp(int(fields[b"at"])),
        fields[b"category"].decode(),
        fields[b"text"].decode(),
        text(fields.get(b"contact_channel")),
    )
