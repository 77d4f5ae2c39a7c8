"""Requests and answers of feedback (SPEC 2.7)."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

SHORTEST = 10
"""Fewest characters of a report (SPEC 2.7)."""

CONTACT_LENGTH = 1000
"""Most characters of a contact channel: an RSA key of 4,096 bits takes 800 in PEM."""


Category = Literal["bug", "feature", "general", "inquiry"]


class NewFeedback(msgspec.Struct):
    """The body of POST /api/v1/feedback."""

    feedback_text: Annotated[
        str,
        Meta(min_length=SHORTEST, max_length=2000, description="The report, in plain English"),
        Meta(examples=["The search finds my threads quickly. Thank you."]),
    ]
    category: Annotated[Category, Meta(examples=["general"])] | None = None
    contact_channel: (
        Annotated[
            str,
            Meta(
                max_length=CONTACT_LENGTH,
                description="Where the operators can answer: URL, e-mail, chat handle or public key",
            ),
        ]
        | None
    ) = None


class ReceivedFeedback(msgspec.Struct):
    """The acknowledgement of a report."""

    status: Literal["received"]
    feedback_id: str


class Report(msgspec.Struct, frozen=True):
    """A report as the operator reads it."""

    id: str
    received_at: str
    category: str
    text: str
    contact_channel: str | None
