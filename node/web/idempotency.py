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
    """Return the key in the request's header, or `key` from its body, which takes precedence; None if there is neither.

    `name`: the owner of the key, if that is not the client's address. `home`: the partition that the request writes to,
    if the key does not decide that. `entity`: the public id of the entity that the request is about. Raises Invalid for
    a header that is empty or too long, even if `key` takes precedence.
    """
    sent = request.header(b"idempotency-key")
    if sent is not None and not 1 <= len(sent) <= MAX_KEY_LENGTH:
        raise Invalid.field("header", "Idempotency-Key", msg=f"must have 1 to {MAX_KEY_LENGTH} characters")
    return bound_key(operation, request.client, sent if key is None else key, body, name, home, entity)


def mark_replayed(request: Request) -> None:
    """Mark the answer to the request as a replay of an earlier one."""
    request.answer_headers.append((b"idempotency-replayed", b"true"))
