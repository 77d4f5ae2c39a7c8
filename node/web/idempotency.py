"""The Idempotency-Key of a request."""

from node.common.refusal import Invalid
from node.store.idempotency import IdempotencyKey, bound_key
from node.web.http import Request

MAX_LENGTH = 255
REPLAYED = (b"idempotency-replayed", b"true")


def idempotency_key(
    request: Request, operation: str, body: bytes, name: str | None = None, key: str | None = None
) -> IdempotencyKey | None:
    """The request's Idempotency-Key header, or the `key` its body names, for the client or who has that `name`.

    Raises Invalid if the key is empty or longer than 255 characters.
    """
    key = key if key is not None else request.header(b"idempotency-key")
    if key is not None and not 1 <= len(key) <= MAX_LENGTH:
        raise Invalid.field("header", "Idempotency-Key", msg=f"must have 1 to {MAX_LENGTH} characters")
    return bound_key(operation, request.client, key, body, name)


def mark_replayed(request: Request) -> None:
    """Say in the answer that it is the original one."""
    request.notes.append(REPLAYED)
