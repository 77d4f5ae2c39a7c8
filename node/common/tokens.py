"""Capability tokens, each of which gives its bearer a right (SPEC 5.2).

A token is the HMAC of the right, with RELAY_SECRET as the key. Tokens are not stored, so none can leak from the store,
and the answer to a repeated request has the same token.
"""

import hmac

from node.common import base64url


class Tokens:
    """Issues and verifies the tokens of a node."""

    def __init__(self, secret: str) -> None:
        self._key = secret.encode()

    def issue(self, *right: str) -> str:
        """Return the token for a right, such as `("destroy", session_id)`; 43 characters."""
        message = "\0".join(right).encode("utf-8", "surrogatepass")
        return base64url.encode(hmac.digest(self._key, message, "sha256"))

    def proves(self, token: str | None, *right: str) -> bool:
        """Return whether `token` is the token for a right. Takes constant time."""
        if token is None:
            return False
        return hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self.issue(*right).encode())
