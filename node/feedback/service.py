"""Reports to the operators of the node: judged on arrival, listed for the operators (SPEC 4.7)."""

from collections.abc import AsyncIterator

from node.common.refusal import Invalid
from node.feedback.model import SHORTEST, NewFeedback, ReceivedFeedback, Report
from node.feedback.store import FeedbackStore
from node.store.idempotency import IdempotencyKey
from node.store.limits import RateLimit
from node.text.faults import require_all
from node.text.lines import require_text
from node.text.readable import is_one_line, readable


class Feedback:
    """The service behind POST /api/v1/feedback."""

    def __init__(self, store: FeedbackStore) -> None:
        self._store = store

    async def add(
        self, rate: RateLimit, new: NewFeedback, idempotency: IdempotencyKey | None
    ) -> tuple[ReceivedFeedback, bool]:
        """Keep a report. The second value says whether the answer acknowledges an earlier report again.

        Raises Invalid, Refused `language.not_english`, `limit.exceeded`, `idempotency.conflict`, StoreUnavailable.
        """
        words = readable(new.feedback_text)
        if len(words.strip()) < SHORTEST:
            raise Invalid.field("body", "feedback_text", msg=f"must contain at least {SHORTEST} readable characters")
        require_all(
            lambda: require_text("feedback_text", words),
            lambda: _require_visible("contact_channel", new.contact_channel or ""),
            feedback_text=words,
        )
        fields = ["text", words, "category", new.category or "general"]
        if new.contact_channel:
            fields += ["contact_channel", new.contact_channel]
        feedback_id, replayed = await self._store.add(rate, idempotency, fields)
        return ReceivedFeedback("received", feedback_id), replayed

    def reports(self) -> AsyncIterator[Report]:
        """Yield all reports that are kept, newest first, for the operator. Raises StoreUnavailable."""
        return self._store.reports()


def _require_visible(field: str, value: str) -> None:
    """Raise Invalid for control or invisible characters. Line breaks may occur, as in a public key in PEM (SPEC
    2.7)."""
    if not all(map(is_one_line, value.replace("\r\n", "\n").split("\n"))):
        raise Invalid.field(
            "body", field, msg="must not contain control or invisible characters other than line breaks"
        )
