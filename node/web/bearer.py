"""The bearer token of a request (RFC 6750)."""

from node.web.http import Request


def bearer_of(request: Request) -> str | None:
    """Return the token of `Authorization: Bearer <token>` (RFC 6750 §2.1); None if there is none or it is empty."""
    return _shown(request) or None


def lacks_token(request: Request) -> bool:
    """Return whether the scheme is named without a token, for instance because the client's variable is empty."""
    return _shown(request) == ""


def _shown(request: Request) -> str | None:
    scheme, _, token = (request.header(b"authorization") or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None
