"""The catalogue of errors: code, status and sentence of each (DESIGN 6), and how a failure becomes an answer.

Every error body is `{"error": "<what to do>"}`, except that of a 422, which lists the wrong fields (SPEC 2.10).
"""

import math
from typing import cast

import msgspec
import structlog

from node.common.refusal import Invalid, Issue, Refused
from node.store.errors import OutcomeUnknown, StoreBusy, StoreUnavailable
from node.web.http import JSON_TYPE, Header, Request, Response

log = structlog.get_logger()

ACCEPT_PLAIN: Header = (b"accept-encoding", b"identity")
"""Tells a client that sent an encoded body which codings the node accepts (RFC 9110 §15.5.16)."""


class HelpLink:
    """The `Link` header that says where errors are explained (DESIGN 6). One per process, which serves one node."""

    def __init__(self) -> None:
        self.lead_below("")

    def lead_below(self, root: str) -> None:
        """Set the path prefix under which clients reach the node (`Settings.public_path`), before any error is made."""
        self.header: Header = (b"link", f'<{root}/llms-full.txt#errors>; rel="help"'.encode())


HELP = HelpLink()

BEARER: Header = (b"www-authenticate", b"Bearer")
"""Asks for a bearer token (RFC 6750 §3)."""

REPLAYED_SIGNATURE: Header = (b"signature-error", b"error=invalid_signature")
"""Says that the signature was used before (draft-hardt-httpbis-signature-key-08)."""

ASK_TO_SIGN: Header = (
    b"accept-signature",
    b'sig=("@method" "@authority" "@path" "content-digest" "signature-key");created;alg="ed25519";tag="relay-node"',
)
"""Tells a client that is refused for lack of a signature what to sign (RFC 9421 §5.1)."""

CLOSE: Header = (b"connection", b"close")
"""Sent where the rest of a body was not read, so that the client sends its next request on another connection."""

INVALID = "request.invalid"
"""The code of every 422 that lists fields. It has no sentence, so it is not in the catalogue."""

OF_PROTOCOL = "request.protocol"
"""The code under which refusals in the error format of A2A or MCP are counted."""

KEY_HEADER = ("header", "Idempotency-Key")
"""The `loc` of a 422 that has a code: it concerns the Idempotency-Key unless its fact `loc` names another field."""


class Entry(msgspec.Struct, frozen=True):
    """The answer for one code. Names in braces in the sentence are replaced with the facts of the refusal."""

    status: int
    sentence: str
    headers: tuple[Header, ...] = ()


class RefusedWithHeaders(Refused):
    """A refusal whose answer has headers of its own, in addition to those in the catalogue."""

    def __init__(self, code: str, headers: tuple[Header, ...], **facts: str) -> None:
        super().__init__(code, retry_after=None, **facts)
        self.headers = headers


CATALOGUE: dict[str, Entry] = {
    "language.not_english": Entry(
        400,
        "Queries must be submitted in plain English (en-US), code and other languages in quotation marks; "
        "{field} is not.",
    ),
    "host.invalid": Entry(400, "Send exactly one Host header, with a host name or address."),
    "body.incomplete": Entry(400, "The body ended early; send it whole."),
    "body.coding": Entry(
        400, "Send the body with Content-Length, or with Transfer-Encoding: chunked, given once.", (CLOSE,)
    ),
    # A2A's UNSUPPORTED_OPERATION, which is 400 (v1.0.1 §5.4): only A2A tasks have turns.
    "inbox.turn": Entry(400, "The owner of the inbox has asked nothing, or was answered already; wait until it asks."),
    "signature.invalid": Entry(400, "The signature does not verify ({reason}); sign again or send unsigned."),
    "blob.size": Entry(400, "The number of bytes is not the byte_size of the manifest."),
    "blob.type": Entry(400, "The Content-Type is not the media_type of the manifest; send what upload_headers says."),
    "blob.digest": Entry(400, "The bytes do not have the digest_sha256 of the manifest; nothing was stored."),
    "inbox.proof": Entry(
        401,
        "Show the inbox_token that POST /api/v1/inboxes gives, or the receipt_token of a message that you sent, in "
        "`Authorization: Bearer`; or sign with the key of the address.",
        (BEARER,),
    ),
    "callbacks.proof": Entry(
        401,
        "Show its publisher_token, destroy_token or inbox_token in `Authorization: Bearer`, or sign with its key.",
        (BEARER,),
    ),
    "inbox.token": Entry(
        403,
        "The token or key is not that of this inbox, message or directory entry; "
        "or the token was rotated, or the inbox closed.",
    ),
    "inbox.policy": Entry(
        403,
        "This inbox takes messages only from those that its policy allows; sign with a key that it knows.",
        (ASK_TO_SIGN,),
    ),
    "receipt.token": Entry(403, "The receipt_token does not belong to this message."),
    "task.token": Entry(
        403,
        "The claim_token is not that of the present claim: it belongs to another task, or its claim has ended by its "
        "lease, a release or a failure.",
    ),
    "task.actor": Entry(403, "Only the publisher or the assignee may do this; name yourself in actor_id."),
    "task.publisher": Entry(403, "Only the publisher may do this: show the publisher_token or the signing key."),
    "task.proof": Entry(403, "Show the publisher_token, the claim_token or the signing key."),
    "session.token": Entry(403, "The destroy_token does not belong to this session."),
    "thread.signer": Entry(403, "Sign with the key that signed this thread; nobody may do this to an unsigned thread."),
    "client.blocked": Entry(403, "The operator has blocked this address."),
    "origin.refused": Entry(403, "Requests from this Origin are not served; the node's operator decides which are."),
    "blob.forged": Entry(403, "This URL was not issued by this node, or it was changed; use the URL exactly as given."),
    "blob.expired": Entry(403, "This URL has expired; ask for a new one."),
    "path.unknown": Entry(404, "There is nothing at this path; look at {where}."),
    "path.spelling": Entry(404, "Write the path as documented: no double or trailing slash, no needless %-escape."),
    "thread.unknown": Entry(404, "No thread has this id."),
    "report.unknown": Entry(404, "Nobody has reported this post."),
    "task.unknown": Entry(404, "No task has this id."),
    "agent.unknown": Entry(404, "No agent has this id, or its entry was removed or has ended."),
    "inbox.unknown": Entry(404, "No inbox has this address; it was closed, or has ended."),
    "receipt.unknown": Entry(404, "No message of this inbox has this id, or its time is over."),
    "session.gone": Entry(404, "The session was destroyed or has expired; create another."),
    "relay.unknown": Entry(404, "No message has this id, or its time is over."),
    "artifact.unknown": Entry(404, "No artifact has this id, or it was removed."),
    "blob.missing": Entry(404, "The artifact's bytes are not here; they were deleted or have expired."),
    "method.unknown": Entry(405, "This path takes only {allowed}."),
    "blob.method": Entry(405, "This URL takes only {allowed}."),
    "path.long": Entry(414, "No path of this node is that long; the node's llms.txt lists the operations."),
    "body.stalled": Entry(408, "The body stopped arriving or came too slowly; send it without pauses.", (CLOSE,)),
    "blob.stalled": Entry(408, "The upload made no progress for too long; start it again.", (CLOSE,)),
    "task.claimed": Entry(409, "Another agent has claimed this task; take another one."),
    "task.state": Entry(
        409,
        "The task is {status}, which does not allow this step. Claim an offered one; complete, fail or release a "
        "claimed one; accept or reject a submitted one; retry a failed one.",
    ),
    "task.paused": Entry(409, "The last attempt failed; this task can be claimed again after Retry-After."),
    "task.over": Entry(409, "The deadline of this task has passed, so it cannot be offered again."),
    "task.result": Entry(409, "The result of this task is checked; hand it in with POST .../complete."),
    "task.completed": Entry(409, "The task is completed already, with another result."),
    "thread.closed": Entry(409, "The thread is closed; start a new one."),
    "agents.host_full": Entry(
        409, "This key or inbox has as many entries as it may have; remove one, or renew one by its name."
    ),
    "inbox.settled": Entry(409, "The message is {status} already, and stays so."),
    "session.full": Entry(409, "The session holds as many lines or bytes as it may; create another."),
    "signature.replayed": Entry(
        409, "This signature or its nonce has been used already; sign again with a new nonce.", (REPLAYED_SIGNATURE,)
    ),
    "artifact.large": Entry(409, "Artifacts of more than {most} bytes are read at content_url."),
    "artifact.state": Entry(
        409,
        "The artifact is {status}: upload and complete a registered one, wait for a verifying one with "
        "GET /api/v1/artifacts/ID?status=verifying&wait=30, register the bytes of a rejected or expired one anew.",
    ),
    "artifact.quota": Entry(
        409,
        "This address, or its IPv6 /48, holds as much as it may (artifacts: {number}, bytes: {held}), or this would be "
        "too much: an address may hold {most} bytes now, and fewer the fuller the node is. "
        "Wait until some artifacts expire.",
    ),
    "artifact.reserved": Entry(
        409,
        "This address, or its IPv6 /48, has reserved as much as it may; "
        "upload and complete what is registered, or wait until it expires.",
    ),
    "blob.uploaded": Entry(409, "The bytes that this URL takes have been stored already; complete the artifact."),
    "blob.busy": Entry(409, "Another upload to this URL is under way; wait for it to end."),
    "cursor.too_old": Entry(
        410, "Events after this cursor are gone; go on with the one in Oldest-Cursor, or with cursor=earliest."
    ),
    "blob.gone": Entry(410, "The artifact was deleted."),
    "blob.length_required": Entry(411, "Send a Content-Length header with the number of bytes."),
    "content.other": Entry(412, "The content is not what If-Match names; read it without that header."),
    "body.too_large": Entry(413, "The body is larger than 1 MiB; offload it with POST /api/v1/artifacts.", (CLOSE,)),
    "body.media_type": Entry(415, "Send the body as {expected}."),
    "body.encoded": Entry(415, "Bodies are read without a Content-Encoding; send it uncompressed.", (ACCEPT_PLAIN,)),
    "body.binary": Entry(415, "The body is not UTF-8 text; offload bytes with POST /api/v1/artifacts."),
    "blob.range": Entry(416, "The range lies outside the content."),
    "host.foreign": Entry(421, "This node is called by another name; its operator sets that with RELAY_BASE_URL."),
    "artifact.unusable": Entry(422, "This artifact is {status}, so nobody can read it; register its bytes anew."),
    "task.deadline": Entry(422, "The deadline has passed; name a later one."),
    "task.schema_dear": Entry(
        422,
        "Checking results against this schema takes too much work; apply fewer subschemas to the same value, and give "
        "its patterns fewer escapes such as \\d.",
    ),
    "task.result_large": Entry(
        422, "This result is too large to be checked against result_schema; hand in less, or the id of an artifact."
    ),
    "idempotency.conflict": Entry(422, "This Idempotency-Key was used for another body; use a new key."),
    "idempotency.short": Entry(
        422,
        "A key so easy to guess gets the token again for {seconds} s only; use at least {least} random characters.",
    ),
    "limit.exceeded": Entry(429, "Over the limit of {count} in {seconds} s for this address; wait for Retry-After."),
    "limit.throughput": Entry(
        429, "This address sends and fetches too much data; wait for Retry-After, or ask for less."
    ),
    "limit.work": Entry(429, "Over {count} {unit} in {seconds} s for this address; ask for less and wait."),
    "limit.waiting": Entry(
        429,
        "This address may have {most} such requests waiting now, and a large one counts as many; wait for their "
        "answers first.",
    ),
    "quota.session": Entry(
        429, "An address may hold {most} live sessions now; destroy one, or wait until one expires."
    ),
    "inbox.full": Entry(
        429,
        "The inbox is full, in all or for this address; wait until its owner settles messages, or for Retry-After.",
    ),
    "quota.inbox": Entry(429, "An address may have {most} inboxes now; close one, or wait until one ends."),
    "quota.board": Entry(429, "An address may post {most} threads in 24 hours now; wait for Retry-After."),
    "quota.task": Entry(429, "An address may offer {most} tasks in 24 hours now; wait for Retry-After."),
    "quota.stream": Entry(429, "An address may have {most} streams of events open now; close one, or ask for pages."),
    "quota.bytes": Entry(
        429,
        "The node keeps {most} bytes for this address per 24 hours, and they are used up; wait for Retry-After.",
    ),
    "server.bug": Entry(500, "The node failed; tell its operator the X-Request-Id of this answer."),
    "store.unavailable": Entry(503, "The store is out of reach and nothing was written; try again."),
    "store.unknown": Entry(
        503, "The store did not answer in time; repeat a read as it is, and a write with the same Idempotency-Key."
    ),
    "store.busy": Entry(503, "The node is at capacity; try again."),
    "node.overloaded": Entry(503, "More requests come than the node can answer in time; wait for Retry-After."),
    "disk.low": Entry(503, "The node is short of disk space and takes no new {what} for now; what exists goes on."),
    "memory.low": Entry(503, "The node is short of memory and takes no new {what} for now; what exists goes on."),
    "node.full": Entry(503, "The node holds as much as it may and takes no new {what} for now; what exists goes on."),
    "blob.unavailable": Entry(503, "The node cannot reach its blob store at the moment; try again in a few seconds."),
    "store.full": Entry(507, "The node has no room for this; try later or elsewhere."),
    "blob.full": Entry(507, "The node has no room for these bytes; try again later or use another node."),
}


def code_of(failure: Exception, status: int = 500) -> str:
    """Return the code under which a failure is counted. `status`: that of its answer."""
    match failure:
        case Refused():
            return failure.code
        case Invalid():
            return INVALID
        case OutcomeUnknown():
            return "store.unknown"
        case StoreBusy():
            return "store.busy"
        case StoreUnavailable():
            return "store.unavailable"
        case _:
            return "server.bug" if status >= 500 else OF_PROTOCOL


def response_to(request: Request, failure: Exception) -> Response:
    """Return the answer to a failed request. Any exception not handled here is a bug: logged, and answered with 500."""
    if isinstance(failure, Refused):
        return refusal(failure)
    if isinstance(failure, Invalid):
        return Response(422, msgspec.json.encode({"detail": failure.issues}), _headers(INVALID))
    if isinstance(failure, StoreUnavailable):
        return refusal(Refused(code_of(failure), retry_after=failure.retry_after))
    log.error("request failed", request_id=request.id, method=request.method, path=request.path, exc_info=failure)
    return refusal(Refused("server.bug"))


def forget_frames(failure: BaseException | None) -> None:
    """Drop the tracebacks of an answered failure and of the failures that led to it.

    The frames in a traceback refer to the request. If one of them also refers to the failure, only the garbage
    collector would free the request with its body, possibly thousands of requests later, and until then Granian keeps
    the connection of a request whose body was not read.
    """
    while failure is not None:
        failure.__traceback__ = None
        failure = failure.__context__


def refusal(refused: Refused) -> Response:
    """Return the answer to a refusal."""
    entry = CATALOGUE[refused.code]
    headers = _headers(refused.code)
    if refused.retry_after is not None:
        headers.append((b"retry-after", str(max(1, math.ceil(refused.retry_after))).encode()))
    headers += entry.headers
    if isinstance(refused, RefusedWithHeaders):
        headers += refused.headers
    if entry.status == 422:
        loc = cast("tuple[str | int, ...]", refused.facts.get("loc", KEY_HEADER))
        detail = [Issue(loc, sentence(refused), "value_error")]
        return Response(422, msgspec.json.encode({"detail": detail}), headers)
    return Response(entry.status, msgspec.json.encode({"error": sentence(refused)}), headers)


def sentence(refused: Refused) -> str:
    """Return the sentence of the catalogue, filled in with the facts of the refusal."""
    return CATALOGUE[refused.code].sentence.format(**refused.facts)


def _headers(code: str) -> list[Header]:
    return [JSON_TYPE, (b"x-error-code", code.encode()), HELP.header]
