"""AWS Signature Version 4 for S3, in the URL of a request.

This is only what the S3 store needs. Bodies are not hashed, since the signed `x-amz-checksum-sha256` says what an
upload must be. Source: AWS "Signature Version 4 for API requests", checked against its published examples.
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


def presign(
    credentials: Credentials,
    method: str,
    origin: str,
    path: str,
    *,
    headers: Mapping[str, str],
    query: Mapping[str, str],
    seconds: int,
    now: datetime,
) -> str:
    """Return a URL that may be used for `seconds` from `now`, with exactly these header values (and Host).

    `origin` is scheme and authority; `path` is not escaped yet.
    """
    stamp, scope = f"{now:%Y%m%dT%H%M%SZ}", f"{now:%Y%m%d}/{credentials.region}/s3/aws4_request"
    scheme, _, authority = origin.partition("://")
    host = authority.removesuffix(":443" if scheme == "https" else ":80")  # as clients send it
    signed = {"host": host} | {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    names = ";".join(sorted(signed))
    parameters = {
        **query,
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key_id}/{scope}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(seconds),
        "X-Amz-SignedHeaders": names,
    }
    if credentials.session_token:
        parameters["X-Amz-Security-Token"] = credentials.session_token
    path = quote(path)  # leaves the unreserved characters of RFC 3986, and slashes
    sent = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in sorted(parameters.items()))
    lines = "".join(f"{name}:{value}\n" for name, value in sorted(signed.items()))
    request = "\n".join([method, path, sent, lines, names, _PAYLOAD])
    text = "\n".join([_ALGORITHM, stamp, scope, sha256(request.encode()).hexdigest()])
    signature = hmac.digest(_key(credentials, scope), text.encode(), sha256).hex()
    return f"{origin}{path}?{sent}&X-Amz-Signature={signature}"


def _key(credentials: Credentials, scope: str) -> bytes:
    """Return the account's key for the day, region and service in `scope`."""
    key = f"AWS4{credentials.secret_access_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), sha256)
    return key
