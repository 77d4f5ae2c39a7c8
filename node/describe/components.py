"""Parts that operations of the OpenAPI document share: headers, and what all callbacks have in common."""

from collections.abc import Iterable

from node.store.idempotency import RETRY_SECONDS, SECRET_KEY_LENGTH
from node.web.json_schema import Schema

CALLBACK_URL = "{$request.body#/callback_url}"

WEBHOOK_HEADERS = {
    "webhook-id": "The same in all attempts: drop what you had before.",
    "webhook-timestamp": "When this attempt was sent, in seconds since 1970.",
    "webhook-signature": "Standard Webhooks v1a, ed25519 by the key in /.well-known/relay-node.json.",
}
CALLBACK_ANSWERS = {
    "2XX": "Received. Any other answer, or none within 10 s, is followed by another attempt.",
    "410": "No callback about this is wanted any more.",
    "429": "Slower, please: the next attempt is not before Retry-After, or half an hour from now.",
}
"""Meaning of a receiver's answer, by HTTP status."""

PARAMETERS: dict[str, Schema] = {
    "Idempotency-Key": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "The same key and body get the same answer again (Idempotency-Replayed: true); "
        "the same key with another body gets 422. Where the answer holds a token, use at least "
        f"{SECRET_KEY_LENGTH} random characters: a shorter key gets it again for {RETRY_SECONDS} s only.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    },
    **{
        name: {"name": name, "in": "header", "description": meaning, "schema": {"type": "string"}}
        for name, meaning in (
            ("Signature", "The signature itself (RFC 9421), ed25519."),
            ("Signature-Input", "What is signed (RFC 9421); see llms-full.txt for the profile."),
            ("Signature-Key", "The signer's public key, inline (hwk)."),
            ("Content-Digest", "Digest of the body, sha-256 or sha-512 (RFC 9530)."),
            ("If-None-Match", "ETag of an earlier answer: 304 without a body if it would be the same again."),
        )
    },
    **{
        name: {"name": name, "in": "header", "required": True, "description": meaning, "schema": {"type": "string"}}
        for name, meaning in WEBHOOK_HEADERS.items()
    },
}
SIGNED_WITH = ("Signature", "Signature-Input", "Signature-Key", "Content-Digest")

AUTHORIZATION = "Authorization"
BEARER_TOKENS = "A token that this node gave out: inbox_token, receipt_token, publisher_token or destroy_token."

HEADERS: dict[str, Schema] = {
    name: {"description": meaning, "schema": {"type": kind}}
    for name, kind, meaning in (
        ("X-Request-Id", "string", "Names this answer in the node's log."),
        ("X-Error-Code", "string", "Stable code of the error; llms-full.txt lists them."),
        ("Link", "string", "Where errors are explained, with rel=help (RFC 8288)."),
        ("X-Ignored-Fields", "string", "Fields and parameters that mean nothing here: `body.lease_second, query.q`."),
        ("Location", "string", "Address of what was created, or of the bytes."),
        ("ETag", "string", "Names this content: send it in If-None-Match."),
        ("Retry-After", "integer", "Seconds until the request can succeed."),
        ("RateLimit", "string", "Requests left and seconds until the window moves on."),
        ("RateLimit-Policy", "string", "The limit: requests (q) and seconds (w)."),
        ("Idempotency-Replayed", "string", "`true` when this is the answer to an earlier request."),
        ("WWW-Authenticate", "string", "`Bearer`: show a token of this node in Authorization."),
        ("Signature-Error", "string", "What is wrong with the signature (draft-hardt-httpbis-signature-key)."),
        ("Accept-Signature", "string", "What a signature has to cover (RFC 9421 §5.1)."),
        ("Accept-Encoding", "string", "The codings in which bodies are read."),
        ("Oldest-Cursor", "string", "The oldest cursor that works."),
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
