"""AWS Signature Version 4 for S3, in the URL of a request.

Only what the S3 store needs: bodies are not hashed, since the signed `x-amz-checksum-sha256` says what an upload must
be. Source: AWS "Signature Version 4 for API requests", checked against its published examples.
"""

import hmac
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from urllib.parse import quote

import msgspec

_ALGORITHM = "AWS4-HMAC-SHA256"
_PAYLOAD = "UNSIGNED-PAYLOAD"


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """The account that signs, and the region of the service."""

    access_key_id: str
    secret_access_key: str
    session_token: str = ""
    region: str = "us-east-1"


class SignedRequest(msgspec.Struct, frozen=True):
    """What is signed of a request besides its headers. `origin` is scheme and authority, `path` is not yet escaped."""

    method: str
    origin: str
    path: str

    @property
    def host(self) -> str:
        """The Host header: the authority, without a port that is the scheme's default."""
        scheme, _, authority = self.origin.partition("://")
        return authority.removesuffix(":443" if scheme == "https" else ":80")

    def url(self, query: str = "") -> str:
        """The URL as it is sent."""
        return self.origin + escape(self.path, "/") + (f"?{query}" if query else "")


def presign(
    credentials: Credentials,
    target: SignedRequest,
    *,
    headers: Mapping[str, str],
    query: Mapping[str, str],
    seconds: int,
    now: datetime,
) -> str:
    """A URL that may be used for `seconds`, with exactly these header values (and Host)."""
    stamp, scope = _when(credentials, now)
    signed = {"host": target.host} | {name.lower(): value for name, value in headers.items()}
    token = {"X-Amz-Security-Token": credentials.session_token} if credentials.session_token else {}
    pairs = _query(
        {
            **query,
            **token,
            "X-Amz-Algorithm": _ALGORITHM,
            "X-Amz-Credential": f"{credentials.access_key_id}/{scope}",
            "X-Amz-Date": stamp,
            "X-Amz-Expires": str(seconds),
            "X-Amz-SignedHeaders": ";".join(sorted(signed)),
        }
    )
    signature = _signature(credentials, target, now, headers=signed, query=pairs)
    return target.url(f"{pairs}&X-Amz-Signature={signature}")


def escape(text: str, safe: str = "") -> str:
    """Percent-encode all but the unreserved characters of RFC 3986."""
    return quote(text, safe=f"-_.~{safe}")


def _query(parameters: Mapping[str, str]) -> str:
    return "&".join(f"{escape(name)}={escape(value)}" for name, value in sorted(parameters.items()))


def _when(credentials: Credentials, now: datetime) -> tuple[str, str]:
    return f"{now:%Y%m%dT%H%M%SZ}", f"{now:%Y%m%d}/{credentials.region}/s3/aws4_request"


def _signature(
    credentials: Credentials,
    target: SignedRequest,
    now: datetime,
    *,
    headers: Mapping[str, str],
    query: str,
) -> str:
    stamp, scope = _when(credentials, now)
    lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in sorted(headers))
    request = "\n".join([target.method, escape(target.path, "/"), query, lines, ";".join(sorted(headers)), _PAYLOAD])
    text = "\n".join([_ALGORITHM, stamp, scope, sha256(request.encode()).hexdigest()])
    secret = f"AWS4{credentials.secret_access_key}".encode()
    for part in scope.split("/"):
        secret = hmac.digest(secret, part.encode(), sha256)
    return hmac.digest(secret, text.encode(), sha256).hex()
