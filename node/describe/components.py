"""Parts that operations of the OpenAPI document share: headers, and what all callbacks have in common."""

from collections.abc import Iterable

from node.store.idempotency import RETRY_SECONDS, SECRET_KEY_LENGTH
from node.web.json_schema import Schema

CALLBACK_URL = "{$request.body#/callback_url}"

WEBHOOK_HEADERS = {
    "webhook-id": "Id of the callback, the same in all attempts: ignore a callback that you have already received.",
    "webhook-timestamp": "Time of this attempt, in seconds since 1970.",
    "webhook-signature": "Standard Webhooks v1a: an ed25519 signature by the key in /.well-known/relay-node.json.",
}
CALLBACK_ANSWERS = {
    "2XX": "Received. After any other answer, or none within 10 s, the node tries again later.",
    "410": "The receiver wants no more callbacks about this thing: the node stops sending them.",
    "429": "Slow down: the next attempt is not before Retry-After, which counts up to half an hour.",
}
"""Meaning of a receiver's answer, by HTTP status."""

PARAMETERS: dict[str, Schema] = {
    "Idempotency-Key": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "Makes the request safe to repeat: the same key and body get the same answer again, with "
        "Idempotency-Replayed: true; the same key with another body gets 422. If the answer has a token, use at least "
        f"{SECRET_KEY_LENGTH} random characters: for a shorter key, the answer is repeated for {RETRY_SECONDS} s only.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    },
    **{
        name: {"name": name, "in": "header", "description": meaning, "schema": {"type": "string"}}
        for name, meaning in (
            ("Signature", "The ed25519 signature of the request (RFC 9421)."),
            ("Signature-Input", "The signed components and parameters (RFC 9421); see llms-full.txt for the profile."),
            ("Signature-Key", "The signer's public key, inline (hwk)."),
            ("Content-Digest", "Digest of the body, sha-256 or sha-512 (RFC 9530)."),
            ("If-None-Match", "ETag of an earlier answer: the answer is 304 without a body if nothing has changed."),
        )
    },
    **{
        name: {"name": name, "in": "header", "required": True, "description": meaning, "schema": {"type": "string"}}
        for name, meaning in WEBHOOK_HEADERS.items()
    },
}
SIGNED_WITH = ("Signature", "Signature-Input", "Signature-Key", "Content-Digest")

AUTHORIZATION = "Authorization"
BEARER_TOKENS = "A token that this node issued: inbox_token, receipt_token, publisher_token or destroy_token."

HEADERS: dict[str, Schema] = {
    name: {"description": meaning, "schema": {"type": kind}}
    for name, kind, meaning in (
        ("X-Request-Id", "string", "Id of this request in the node's log."),
        ("X-Error-Code", "string", "Stable code of the error; llms-full.txt lists all codes."),
        ("Link", "string", "Address of the list of all errors, with rel=help (RFC 8288)."),
        (
            "X-Ignored-Fields",
            "string",
            "Unknown fields and parameters that were ignored: `body.lease_second, query.q`.",
        ),
        ("Location", "string", "Address of what was created, or of the artifact's bytes."),
        ("ETag", "string", "Identifies this version of the content: send it in If-None-Match."),
        ("Last-Modified", "string", "When the content last changed, at the latest."),
        ("Retry-After", "integer", "Seconds until the request can succeed."),
        ("RateLimit", "string", "Requests left (r), and seconds until there are more (t)."),
        ("RateLimit-Policy", "string", "The limit: number of requests (q) in a window of seconds (w)."),
        ("Idempotency-Replayed", "string", "`true` when this is the answer to an earlier request."),
        ("WWW-Authenticate", "string", "`Bearer`: send a token that this node issued in Authorization."),
        ("Signature-Error", "string", "What is wrong with the signature (draft-hardt-httpbis-signature-key)."),
        ("Accept-Signature", "string", "What a signature must cover (RFC 9421 §5.1)."),
        ("Accept-Encoding", "string", "The content codings that request bodies may have."),
        ("Oldest-Cursor", "string", "The oldest cursor that still works."),
    )
}

ERROR_HEADERS = {
    "inbox.proof": "WWW-Authenticate",
    "callbacks.proof": "WWW-Authenticate",
    "signature.invalid": "Signature-Error",
    "signature.replayed": "Signature-Error",
    "inbox.policy": "Accept-Signature",
    "body.encoded": "Accept-Encoding",
    "cursor.too_old": "Oldest-Cursor",
    "task.paused": "Retry-After",
}
"""Header that comes with an error, by error code."""


def headers_of(codes: Iterable[str]) -> list[str]:
    """Return the headers that come with errors of these codes."""
    return [ERROR_HEADERS[code] for code in codes if code in ERROR_HEADERS]
