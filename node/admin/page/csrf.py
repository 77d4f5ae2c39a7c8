"""Protection against CSRF: tells a form sent from one of our pages from a form sent by another page in the browser."""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from urllib.parse import urlsplit

SECRET_BYTES = 32


class CsrfTokens:
    """Gives each form a token that only this process can make and that is valid for one act on one target."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(SECRET_BYTES)

    def token(self, act: str, target: str) -> str:
        """Return the token of the form that confirms the act."""
        return hmac.new(self._secret, f"{act}\n{target}".encode(), hashlib.sha256).hexdigest()

    def is_confirmed(self, act: str, target: str, token: str, headers: Mapping[str, str]) -> bool:
        """Return whether the form came from our page, judging by the browser's headers and the token.

        Browsers send Origin with every posted form. Its scheme is not compared: a proxy may terminate TLS.
        """
        site = headers.get("sec-fetch-site", "same-origin")
        origin = urlsplit(headers.get("origin", "")).netloc
        is_ours = site == "same-origin" and bool(origin) and origin.lower() == headers.get("host", "").lower()
        return is_ours and hmac.compare_digest(token.encode(), self.token(act, target).encode())
