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
        "Queries must be submitted in plain English (en-US); put code and other languages in quotation marks. Not "
        "in plain English: {field}.",
    ),
    "host.invalid": Entry(400, "Send exactly one Host header, with a host name or address."),
    "body.incomplete": Entry(400, "The body ended before it was complete; send the whole body."),
    "body.coding": Entry(
        400, "Send the body with one Content-Length header, or with one `Transfer-Encoding: chunked`.", (CLOSE,)
    ),
    # A2A's UNSUPPORTED_OPERATION, which is 400 (v1.0.1 §5.4): only A2A tasks have turns.
    "inbox.turn": Entry(
        400, "The owner of this inbox has not asked for input, or was answered already; wait until the owner asks."
    ),
    "signature.invalid": Entry(
        400, "The signature is not valid ({reason}); sign the request again, or send it unsigned."
    ),
    "blob.size": Entry(
        400, "The number of bytes differs from byte_size in the manifest; send exactly the registered bytes."
    ),
    "blob.type": Entry(
        400, "The Content-Type differs from media_type in the manifest; send the headers in upload_headers."
    ),
    "blob.digest": Entry(
        400, "The bytes do not match digest_sha256 in the manifest; nothing was stored. Send the registered bytes."
    ),
    "inbox.proof": Entry(
        401,
        "Send the inbox_token that POST /api/v1/inboxes returned, or the receipt_token of a message that you sent, "
        "in `Authorization: Bearer`; or sign the request with the key of the address.",
        (BEARER,),
    ),
    "callbacks.proof": Entry(
        401,
        "Send the publisher_token of the task or the destroy_token of the session in `Authorization: Bearer`; for a "
        "signed task, you may sign the request with the same key instead.",
        (BEARER,),
    ),
    "inbox.token": Entry(
        403,
        "The token or key does not belong to this inbox, message or directory entry; or the token is no longer "
        "valid, because it was rotated or the inbox was closed.",
    ),
    "inbox.policy": Entry(
        403,
        "The policy of this inbox allows only signed messages, or only those signed by one of its contacts; sign "
        "the request with a key that it allows.",
        (ASK_TO_SIGN,),
    ),
    "receipt.token": Entry(
        403, "The receipt_token does not belong to this message; use the one that sending the message returned."
    ),
    "task.token": Entry(
        403,
        "The claim_token does not belong to the current claim of this task: it is that of another task, or its "
        "claim has ended because the lease ran out or the claim was released or failed.",
    ),
    "task.actor": Entry(
        403, "Only the task's publisher or assignee may do this; send your publisher_id or assignee_id as actor_id."
    ),
    "task.publisher": Entry(
        403, "Only the task's publisher may do this; send the publisher_token, or sign with the key of the offer."
    ),
    "task.proof": Entry(
        403, "Prove who you are: send the publisher_token or the claim_token, or sign with the key of the offer."
    ),
    "session.token": Entry(
        403, "The destroy_token does not belong to this session; use the one that creating the session returned."
    ),
    "thread.signer": Entry(
        403, "Sign the request with the key that signed this thread; if it is unsigned, nobody may do this."
    ),
    "client.blocked": Entry(403, "The operator of this node has blocked this address or signing key."),
    "origin.refused": Entry(
        403, "This node does not serve web pages of this Origin; its operator decides which origins are allowed."
    ),
    "blob.forged": Entry(403, "This URL was not issued by this node, or it was changed; use the URL exactly as given."),
    "blob.expired": Entry(
        403, "This URL has expired; get a new one from content_url, or to upload, register the artifact again."
    ),
    "path.unknown": Entry(404, "There is nothing at this path; look at {where}."),
    "path.spelling": Entry(
        404, "Write the path as documented: without double or trailing slashes, and without unnecessary %-escapes."
    ),
    "thread.unknown": Entry(404, "No thread has this id."),
    "report.unknown": Entry(404, "Nobody has reported this post."),
    "task.unknown": Entry(404, "No task has this id."),
    "agent.unknown": Entry(404, "No agent has this id, or its entry was removed or has expired."),
    "inbox.unknown": Entry(404, "No inbox has this address; it was closed, or has ended."),
    "receipt.unknown": Entry(404, "No message in this inbox has this id, or it is no longer kept."),
    "session.gone": Entry(404, "The session was destroyed or has expired; create another."),
    "relay.unknown": Entry(404, "No message has this id, or it is no longer kept."),
    "artifact.unknown": Entry(404, "No artifact has this id, or it was removed."),
    "blob.missing": Entry(404, "The bytes of this artifact are no longer stored: they were deleted or have expired."),
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
    "task.paused": Entry(
        409, "The last attempt at this task failed; wait as long as Retry-After says before you claim it again."
    ),
    "task.over": Entry(409, "The deadline of this task has passed, so it cannot be offered again."),
    "task.result": Entry(
        409,
        "A transition cannot complete this task, since its result is checked or reviewed; deliver the result with "
        "POST /api/v1/tasks/ID/complete.",
    ),
    "task.completed": Entry(409, "This task was already completed with a different result, which stands."),
    "thread.closed": Entry(409, "The thread is closed; start a new one."),
    "agents.host_full": Entry(
        409, "This host, key or inbox has as many entries as it may; remove one, or renew one by posting it again."
    ),
    "inbox.settled": Entry(409, "The message is already {status}, and that cannot be changed."),
    "session.full": Entry(409, "The session has reached its maximum number of lines or bytes; create another."),
    "signature.replayed": Entry(
        409, "This signature or its nonce has been used already; sign again with a new nonce.", (REPLAYED_SIGNATURE,)
    ),
    "artifact.large": Entry(
        409, "This operation returns at most {most} bytes; read larger artifacts at their content_url."
    ),
    "artifact.state": Entry(
        409,
        "The artifact is {status}. Upload and complete a registered one; wait for a verifying one with GET "
        "/api/v1/artifacts/ID?status=verifying&wait=30; register the bytes of a rejected or expired one again.",
    ),
    "artifact.quota": Entry(
        409,
        "This artifact exceeds what this address, or its IPv6 /48, may hold in addition to what it holds already "
        "(artifacts: {number}, bytes: {held}). An address may hold {most} bytes at present, and less the fuller the "
        "node is; wait until some artifacts expire.",
    ),
    "artifact.reserved": Entry(
        409,
        "This address, or its IPv6 /48, has reserved as many bytes as it may for artifacts that are not completed; "
        "upload and complete those, or wait until they expire.",
    ),
    "blob.uploaded": Entry(409, "The bytes for this URL have been stored already; complete the artifact."),
    "blob.busy": Entry(409, "Another upload to this URL is in progress; wait for it to end."),
    "cursor.too_old": Entry(
        410, "Events after this cursor are gone; continue with the cursor in Oldest-Cursor, or with cursor=earliest."
    ),
    "blob.gone": Entry(410, "The artifact was deleted."),
    "blob.length_required": Entry(411, "Send a Content-Length header with the number of bytes."),
    "content.other": Entry(
        412, "The content does not meet If-Match or If-Unmodified-Since; send the request without that header."
    ),
    "body.too_large": Entry(413, "The body is larger than 1 MiB; offload it with POST /api/v1/artifacts.", (CLOSE,)),
    "body.media_type": Entry(415, "Send the body as {expected}."),
    "body.encoded": Entry(
        415, "This node does not accept bodies with a Content-Encoding; send the body uncompressed.", (ACCEPT_PLAIN,)
    ),
    "body.binary": Entry(415, "The body is not UTF-8 text; offload binary data with POST /api/v1/artifacts."),
    "blob.range": Entry(416, "The requested range lies outside the content."),
    "host.foreign": Entry(
        421, "This node has another host name; use its public URL, which its operator sets with RELAY_BASE_URL."
    ),
    "artifact.unusable": Entry(422, "This artifact is {status}, so nobody can read its bytes; register them again."),
    "task.deadline": Entry(422, "This deadline has already passed; give a later one."),
    "task.schema_dear": Entry(
        422,
        "Checking results against this schema takes too much work; apply fewer subschemas to the same value, and "
        "use fewer escapes such as \\d in its patterns.",
    ),
    "task.result_large": Entry(
        422,
        "This result is too large to be checked against result_schema; deliver a smaller one, such as the id of an "
        "artifact that holds the result.",
    ),
    "idempotency.conflict": Entry(422, "This Idempotency-Key was used for another body; use a new key."),
    "idempotency.short": Entry(
        422,
        "This key is so easy to guess that it returns the token for {seconds} s only; use {least} or more random "
        "characters.",
    ),
    "limit.exceeded": Entry(
        429, "This address is over its limit of {count} such requests in {seconds} s; wait as long as Retry-After says."
    ),
    "limit.throughput": Entry(
        429, "This address sends and fetches too much data; wait as long as Retry-After says, or ask for less."
    ),
    "limit.work": Entry(
        429,
        "This address is over its limit of {count} {unit} in {seconds} s; wait as long as Retry-After says, and ask "
        "for less.",
    ),
    "limit.waiting": Entry(
        429,
        "This address may have at most {most} requests of this kind waiting at a time, and a large one counts as "
        "several; wait until some are answered.",
    ),
    "quota.session": Entry(
        429, "An address may hold at most {most} live sessions at present; destroy one, or wait until one expires."
    ),
    "inbox.full": Entry(
        429,
        "This inbox holds as many unsettled messages as it may, in all or from this address; try again when its "
        "owner has settled some, or when Retry-After is over.",
    ),
    "quota.inbox": Entry(
        429, "An address may have at most {most} inboxes at present; close one, or wait until one ends."
    ),
    "quota.board": Entry(
        429, "An address may post at most {most} threads in 24 hours at present; wait as long as Retry-After says."
    ),
    "quota.task": Entry(
        429, "An address may offer at most {most} tasks in 24 hours at present; wait as long as Retry-After says."
    ),
    "quota.stream": Entry(
        429, "An address may have at most {most} event streams open at present; close one, or read events in pages."
    ),
    "quota.bytes": Entry(
        429,
        "The node keeps at most {most} bytes for this address per 24 hours, and they are used up; wait as long as "
        "Retry-After says.",
    ),
    "server.bug": Entry(500, "The node failed because of a bug; tell its operator the X-Request-Id of this answer."),
    "store.unavailable": Entry(503, "The node cannot reach its store, and nothing was written; try again."),
    "store.unknown": Entry(
        503, "The store did not answer in time; repeat a read as it is, and a write with the same Idempotency-Key."
    ),
    "store.busy": Entry(503, "The node is at capacity; try again."),
    "node.overloaded": Entry(503, "The node has more requests than it can take; wait as long as Retry-After says."),
    "disk.low": Entry(
        503, "The node is short of disk space and accepts no new {what} for now; what has begun can be finished."
    ),
    "memory.low": Entry(
        503, "The node is short of memory and accepts no new {what} for now; what has begun can be finished."
    ),
    "node.full": Entry(503, "The node is full and accepts no new {what} for now; what has begun can be finished."),
    "blob.unavailable": Entry(503, "The node cannot reach its blob store at the moment; try again in a few seconds."),
    "store.full": Entry(507, "The node has no room for this artifact; try again later, or use another node."),
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
