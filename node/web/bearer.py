"""The token of a request (RFC 6750)."""

from node.web.http import Request


def bearer_of(request: Request) -> str | None:
    """The token of `Authorization: Bearer <token>` (RFC 6750 §2.1)."""
    scheme, _, token = (request.header(b"authorization") or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None
