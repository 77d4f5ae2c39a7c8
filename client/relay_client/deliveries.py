"""The state of callbacks."""

from typing import Literal, TypedDict


class Delivery(TypedDict):
    """A callback that is on its way, has arrived, or was given up."""

    id: str
    type: str
    host: str
    status: Literal["dead", "delivered", "dropped", "pending"]
    attempts: int
    last_error: str | None
    created_at: str
    next_attempt_at: str | None


class DeliveryPage(TypedDict):
    """Callbacks about one thing."""

    callbacks: list[Delivery]
    next_since: int
