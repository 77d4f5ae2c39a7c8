"""The Idempotency-Key of a request (DESIGN 6)."""

from node.common.refusal import Invalid
from node.store.idempotency import IdempotencyKey, bound_key
from node.web.http import Request

MAX_KEY_LENGTH = 255  # characters


def idempotency_key(
    request: Request,
    operation: str,
    body: bytes,
    name: str | None = None,
    key: str | None = None,
    home: int | None = None,
    entity: str = "",
) -> IdempotencyKey | None:
    """The key in the request's header, or `key` from its body, which takes precedence; None without one.

    `name`: to whom the key belongs, if not to the client's address. `home`: the partition where the request writes,
    if the key does not decide. `entity`: the public id of what the request is about. Raises Invalid for a header that
    is empty or too long, whether or not it counts.
    """
    sent = request.header(b"idempotency-key")
    if sent is not None and not 1 <= len(sent) <= MAX_KEY_LENGTH:
        raise Invalid.field("header", "Idempotency-Key", msg=f"must have 1 to {MAX_KEY_LENGTH} characters")
    return bound_key(operation, request.client, sent if key is None else key, body, name, home, entity)


def mark_replayed(request: Request) -> None:
    """Mark the answer to the request as an earlier one, repeated."""
    request.answer_headers.append((b"idempotency-replayed", b"true"))
