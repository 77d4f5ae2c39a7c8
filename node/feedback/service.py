"""Reports to the operators of the node (SPEC 4.7)."""

from node.config import Limit
from node.feedback.model import NewFeedback
from node.feedback.store import FeedbackStore, Received
from node.idempotency import Once
from node.refusal import Invalid, Refused
from node.text.english import is_english
from node.text.plain import is_one_line, readable


class Feedback:
    """The service behind POST /api/v1/feedback."""

    def __init__(self, store: FeedbackStore) -> None:
        self._store = store

    async def add(self, client: str, limit: Limit, new: NewFeedback, once: Once | None) -> Received:
        """Keep a report. Raises Invalid, Refused `language.not_english`, StoreUnavailable.

        The caller acts on the outcome: `limited` and `conflict` are refused.
        """
        text = readable(new.feedback_text)
        if not text.strip():
            raise Invalid.field("body", "feedback_text", msg="must hold more than white space")
        if not is_english(text):
            raise Refused("language.not_english")
        fields = ["text", text, "category", new.category or "general"]
        if new.contact_channel:
            if not is_one_line(new.contact_channel):
                raise Invalid.field("body", "contact_channel", msg="must be one line without control characters")
            fields += ["contact_channel", new.contact_channel]
        return await self._store.add(client, limit, once, fields)
