"""The delivery state of callbacks."""

from typing import Literal, TypedDict


class Delivery(TypedDict):
    """A callback that is pending, delivered, or given up."""

    id: str
    type: str
    host: str
    status: Literal["dead", "delivered", "dropped", "pending"]
    attempts: int
    last_error: str | None
    created_at: str
    next_attempt_at: str | None


class DeliveryPage(TypedDict):
    """The callbacks about one entity."""

    callbacks: list[Delivery]
    next_since: int
