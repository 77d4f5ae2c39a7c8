"""Requests and answers of inboxes over HTTP, then the types for the A2A agents in front of inboxes (NETWORK 1)."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

END = "$(?!\\n)"
"""Matches the end of a text; `$` alone would also match before a line feed at the end."""

LABEL_LENGTH = 120
DESCRIPTION_LENGTH = 2000
MAX_CONTACTS = 100
CARD_BYTES = 16 * 1024
"""Maximum bytes of the JSON of an agent card's name, description and skills."""
BODY_BYTES = 16 * 1024
"""Maximum UTF-8 bytes of a message or a reply."""
CIPHERTEXT_LENGTH = 24 * 1024
"""Maximum base64 characters of a ciphertext: room for BODY_BYTES plus the overhead of encryption."""
SUBJECT_LENGTH = AUTHOR_LENGTH = 200
TOPIC_LENGTH = 100
MAX_ARTIFACTS = 10
MONTH = 2_592_000  # seconds
USUAL_LIFE_SECONDS = 604_800
"""TTL of a message in an inbox that sets none: 7 days."""
MAX_PUSH_CONFIGS = 4
"""Maximum number of push notification configs of one task. The node sends each change to all of them."""

SenderPolicy = Literal["open", "signed", "contacts"]
InboxMessageStatus = Literal["queued", "read", "done", "refused", "input_required", "expired", "withdrawn"]
LastSeen = Literal["hour", "day", "week", "older"]

EXAMPLE_ADDRESS = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"

Address = Annotated[
    str,
    Meta(
        pattern="^([A-Za-z0-9_-]{27}|[A-Za-z0-9_-]{43})" + END,
        description="Address of an inbox: the thumbprint of a key, or random characters",
        examples=[EXAMPLE_ADDRESS],
    ),
]
EntityId = Annotated[str, Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}" + END, description="A UUID")]
Body = Annotated[str, Meta(min_length=1, max_length=BODY_BYTES, description="Any language; at most 16,384 UTF-8 bytes")]
Ciphertext = Annotated[
    str, Meta(min_length=4, max_length=CIPHERTEXT_LENGTH, description="Base64 of encrypted text, instead of plain text")
]
Artifacts = Annotated[list[EntityId], Meta(max_length=MAX_ARTIFACTS, description="Passed on without being checked")]
InboxCallbackUrl = Annotated[
    str, Meta(description="Gets a POST when a message comes: a public http or https URL on port 80, 443, 8080 or 8443")
]


class CardSkill(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A skill on an agent card (A2A v1.0 §4.4.5). As in the directory, `id` and `tags` may be left out."""

    id: Annotated[str, Meta(max_length=128)] = ""
    name: Annotated[str, Meta(min_length=1, max_length=200)]
    description: Annotated[str, Meta(min_length=1)]
    tags: list[str] = []
    examples: list[str] | None = None


class InboxCard(msgspec.Struct):
    """The members of an A2A agent card that the owner of the inbox decides. Other members are ignored."""

    name: Annotated[str, Meta(min_length=1, max_length=200, examples=["Report desk"])]
    description: Annotated[str, Meta(min_length=1, examples=["Summarises reports of up to 40 pages."])]
    skills: Annotated[list[CardSkill], Meta(min_length=1)]


class NewInbox(msgspec.Struct):
    """The body of POST /api/v1/inboxes. In a renewal, an absent field keeps its value, and null clears a field."""

    label: Annotated[str, Meta(max_length=LABEL_LENGTH, examples=["Report desk"])] | UnsetType | None = UNSET
    description: (
        Annotated[str, Meta(max_length=DESCRIPTION_LENGTH, examples=["Summarises reports of up to 40 pages."])]
        | UnsetType
        | None
    ) = UNSET
    policy: (
        Annotated[SenderPolicy, Meta(description="Who may send: everybody, those who sign, or the keys in contacts")]
        | UnsetType
        | None
    ) = UNSET
    contacts: (
        Annotated[
            list[Address],
            Meta(max_length=MAX_CONTACTS, description="Addresses whose keys may send under the policy `contacts`"),
        ]
        | UnsetType
        | None
    ) = UNSET
    encryption_key: (
        Annotated[
            str,
            Meta(
                pattern="^[A-Za-z0-9_-]{43}" + END,
                description="X25519 public key in base64url for senders who encrypt; the node does not use it",
            ),
        ]
        | UnsetType
        | None
    ) = UNSET
    callback_url: InboxCallbackUrl | UnsetType | None = UNSET
    ttl_seconds: (
        Annotated[int, Meta(ge=60, le=MONTH, description="Seconds for which a message is held; 7 days if never set")]
        | UnsetType
        | None
    ) = UNSET
    card: Annotated[
        InboxCard | UnsetType | None,
        Meta(
            description="For the inbox's A2A agent card; also lists it in the directory, in place of its last card. "
            "null removes both; at most 16,384 bytes"
        ),
    ] = UNSET
    rotate: Annotated[bool, Meta(description="true ends all earlier tokens; repeatable with Idempotency-Key")] = False


class OpenedInbox(msgspec.Struct):
    """An inbox as shown to its owner. Keep the token secret: whoever has it can read and close the inbox."""

    address: Annotated[str, Meta(examples=[EXAMPLE_ADDRESS])]
    inbox_token: str
    epoch: Annotated[str, Meta(examples=["9f86d081884c7d65"])]
    """The epoch that the token is valid for. It changes when tokens are rotated and when the inbox is opened again."""
    url: str
    a2a_url: str
    """Base URL of the A2A agent that A2A clients see in place of the inbox."""
    expires_at: str
    """When the inbox ends, unless its owner reads or renews it before."""
    agent_id: Annotated[str | UnsetType, Meta(examples=["9f86d081-884c-4d65-9a2f-eaa0c55ad012"])] = UNSET
    """Id of the inbox's entry in the directory, if the request had a card and the card is listed."""


class Inbox(msgspec.Struct):
    """What everybody may see of an inbox."""

    address: Annotated[str, Meta(examples=[EXAMPLE_ADDRESS])]
    label: Annotated[str | None, Meta(examples=["Report desk"])]
    description: Annotated[str | None, Meta(examples=["Summarises reports of up to 40 pages."])]
    policy: SenderPolicy
    is_signed: bool
    """Whether the address is the thumbprint of a key, so that signatures can prove who its owner is."""
    encryption_key: Annotated[str | None, Meta(examples=[None])]
    a2a_url: str
    """Base URL of the A2A agent that A2A clients see in place of the inbox."""
    last_seen: LastSeen
    """When the owner last read or renewed the inbox: within the last hour, day or week, or longer ago."""
    accepting: bool
    """Whether there is room for a message now."""


class ClosedInbox(msgspec.Struct):
    """The inbox is gone."""

    address: Annotated[str, Meta(examples=[EXAMPLE_ADDRESS])]
    status: Literal["closed"] = "closed"


MESSAGE = "inbox-message"
"""Kind of a message in an operator's search for what came from an origin. The id is `<address>:<message id>`."""


class InboxUsage(msgspec.Struct):
    """An inbox as shown to the operator, without anything that its owner or a sender wrote."""

    address: str
    waiting: int
    bytes: int
    opened_at: str
    seen_at: str
    expires_at: str


class NewInboxMessage(msgspec.Struct):
    """The body of POST /api/v1/inboxes/{address}/messages: a body or a ciphertext, and details about it."""

    body: Annotated[Body, Meta(examples=["Please summarise the report in the artifact."])] | None = None
    ciphertext: Ciphertext | None = None
    subject: Annotated[str, Meta(max_length=SUBJECT_LENGTH, examples=["A report to summarise"])] | None = None
    author: Annotated[str, Meta(max_length=AUTHOR_LENGTH, examples=["planner"])] | None = None
    reply_to: Annotated[Address, Meta(description="Address of an inbox for answers")] | None = None
    in_reply_to: Annotated[EntityId, Meta(description="Id of an earlier message that this one answers")] | None = None
    thread: Annotated[str, Meta(max_length=TOPIC_LENGTH, description="A name for the conversation")] | None = None
    artifact_ids: Artifacts = []
    expires_in: (
        Annotated[int, Meta(ge=30, le=MONTH, description="Seconds to hold the message; the inbox may cap it")] | None
    ) = None


class SendQuery(msgspec.Struct):
    """The query of POST /api/v1/inboxes/{address}/messages."""

    wait: Annotated[float, Meta(ge=0, le=30, description="Seconds to wait for the owner to settle the message")] = 0


class Answer(msgspec.Struct, kw_only=True):
    """What the sender of a message is told about it: its status, and the owner's reply."""

    id: str
    seq: int
    status: InboxMessageStatus
    expires_at: str
    settled_at: Annotated[str | None, Meta(examples=[None])] = None
    reply: Annotated[str | None, Meta(examples=[None])] = None
    reply_ciphertext: Annotated[str | None, Meta(examples=[None])] = None
    artifact_ids: Annotated[list[str], Meta(description="Ids of the reply's artifacts", examples=[[]])] = []


class SentInboxMessage(Answer, kw_only=True):
    """The acknowledgement of a message. With `wait`, it comes when the owner has settled the message or time is up."""

    receipt_token: str
    receipt_url: str


class Receipt(Answer, kw_only=True):
    """What became of a message."""

    sent_at: str
    read_at: Annotated[str | None, Meta(examples=[None])]


class ReceiptQuery(msgspec.Struct):
    """The query of GET /api/v1/inboxes/{address}/messages/{id}."""

    wait: Annotated[float, Meta(ge=0, le=30, description="Seconds to wait for the status to change")] = 0
    status: (
        Annotated[InboxMessageStatus, Meta(description="The status you last saw; omit it to await any change")] | None
    ) = None


class InboxPageQuery(msgspec.Struct):
    """The query of GET /api/v1/inboxes/{address}/messages."""

    since_seq: Annotated[int, Meta(ge=0, le=2**53, description="Return messages after this seq")] = 0
    limit: Annotated[int, Meta(ge=1, le=100)] = 50
    wait: Annotated[float, Meta(ge=0, le=30, description="Seconds to wait if there is no message after since_seq")] = 0


class InboxContent(msgspec.Struct, omit_defaults=True):
    """A message as it is kept: what the sender wrote, and what the signature proved."""

    body: Annotated[str | None, Meta(examples=["Please summarise the report in the artifact."])] = None
    ciphertext: Annotated[str | None, Meta(examples=[None])] = None
    subject: Annotated[str | None, Meta(examples=["A report to summarise"])] = None
    author: Annotated[str | None, Meta(examples=["planner"])] = None
    signer: Annotated[str | None, Meta(examples=[None])] = None
    """Thumbprint of the key that signed the message."""
    reply_to: Annotated[str | None, Meta(examples=[EXAMPLE_ADDRESS])] = None
    reply_to_proven: bool = False
    """Whether the message was signed by the key of reply_to. If not, the sender may not own that address."""
    in_reply_to: Annotated[str | None, Meta(examples=[None])] = None
    thread: Annotated[str | None, Meta(examples=["report-7"])] = None
    artifact_ids: Annotated[list[str], Meta(examples=[[]])] = []


class InboxMessage(InboxContent, kw_only=True, omit_defaults=False):
    """An unsettled message, as its owner reads it."""

    id: str
    seq: int
    sent_at: str
    expires_at: str


class InboxPage(msgspec.Struct):
    """Unsettled messages after since_seq, in the order of seq. Reading removes nothing: settle what you have done."""

    messages: list[InboxMessage]
    next_since_seq: int
    waiting: int
    """Unsettled messages in the inbox."""
    bytes: int
    """Bytes of all unsettled messages in the inbox."""
    oldest_at: str | None
    """When the oldest unsettled message was sent; null if there is none."""
    epoch: Annotated[str, Meta(examples=["9f86d081884c7d65"])]


class Settlement(msgspec.Struct):
    """The body of POST /api/v1/inboxes/{address}/messages/{id}/settle."""

    CONTENT: ClassVar = ("reply", "reply_ciphertext", "artifact_ids")
    """Content fields. A body without any of them, but with a similarly named one, is refused (`require_content`)."""

    status: Literal["done", "refused", "input_required"]
    reply: Annotated[Body, Meta(examples=["Solar panels became cheaper by half."])] | None = None
    reply_ciphertext: Ciphertext | None = None
    artifact_ids: Artifacts = []


class SettledMessage(msgspec.Struct):
    """The message is settled, and no longer held."""

    id: str
    seq: int
    status: InboxMessageStatus
    settled_at: str


class SettleThrough(msgspec.Struct):
    """The body of POST /api/v1/inboxes/{address}/settle."""

    through_seq: Annotated[int, Meta(ge=0, le=2**53, examples=[7])]


class SettledThrough(msgspec.Struct):
    """All messages up to this number are settled."""

    through_seq: int
    settled: int
    """Number of messages that this request settled as done."""


class InboxProof(msgspec.Struct, frozen=True):
    """The credentials of a request: a token, a signature, both, or none."""

    token: str | None = None
    """From `Authorization: Bearer`."""
    signer: str = ""
    """Thumbprint of the key that signed the request; empty if it is not signed."""
    replay_id: str = ""
    """Identifies the signature: it is the same each time the signature is used, which reveals a replay."""

    @property
    def is_empty(self) -> bool:
        """Whether the request has no credentials, so that anybody may have sent it."""
        return self.token is None and not self.signer


class NewTurn(msgspec.Struct, frozen=True):
    """What a new message adds to an A2A task, a chain of messages that each answer a question of the owner."""

    task: str = ""
    """Id of the first message of the task; empty if this message is the first."""
    before: str = ""
    """Id of the previous message, to which the owner's question belongs; empty if this message is the first."""
    context: str = ""
    context_name: str = ""
    """Name of the context in Redis keys."""
    said: bytes = b""
    """The message as shown to its sender."""


class InboxTurn(msgspec.Struct, frozen=True):
    """A message of a task, and what became of it."""

    id: str
    status: InboxMessageStatus
    at: int
    """When the message got its status (ms)."""
    sent_at: int
    read_at: int | None
    """When the owner read the message (ms), if that was before settling it."""
    asked_at: int | None
    """When the owner settled the message with a question (ms), if the sender withdrew it afterwards."""
    said: bytes
    reply: str | None
    reply_ciphertext: str | None
    artifact_ids: list[str]


class InboxTask(msgspec.Struct, frozen=True):
    """A chain of messages to an inbox. Its id is a capability: whoever knows the id may act on the task."""

    id: str
    context: str
    turns: list[InboxTurn]
    lasts: float
    """Seconds until the last message expires if it is not settled before; infinite if it is no longer held."""

    @property
    def last(self) -> InboxTurn:
        """The last message, whose status is the status of the task."""
        return self.turns[-1]

    @property
    def changed(self) -> tuple[int, str]:
        """Sort key: when the task last changed (ms), and its id."""
        return self.last.at, self.id

    @property
    def version(self) -> tuple[str, str]:
        """Id and status of the last message. They differ after every change of the task."""
        return self.last.id, self.last.status


class PushTarget(msgspec.Struct, frozen=True, omit_defaults=True):
    """A receiver that is notified of a task's changes, and the credentials that are sent to it."""

    id: str
    url: str
    publisher: str
    """Who gave the URL (`node.callbacks.owners`)."""
    token: str = ""
    scheme: str = ""
    credentials: str = ""
