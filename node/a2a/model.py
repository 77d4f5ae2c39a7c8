"""A2A v1.0 objects in wire format: ProtoJSON names, unset fields omitted.

Answers have no other fields, because some clients reject keys that the protocol does not define. The node's own
additions are in `metadata`, in camelCase.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

State = Literal[
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
]


_OBJECT_OR_NULL: dict[str, Any] = {"anyOf": [{"type": "object", "additionalProperties": {}}, {"type": "null"}]}

Metadata = Annotated[msgspec.Raw, Meta(extra_json_schema=_OBJECT_OR_NULL)] | msgspec.UnsetType
"""A JSON object with keys of the sender's choice, kept undecoded: decoding one number such as 1e300 takes 12 µs, and
a body has room for 170,000 of them, or for 80,000 keys."""

MAX_PARTS = 1000
"""Most parts of a sent message. Plain text never needs that many, and processing 20,000 takes 20 ms."""

MAX_NAMED = 100
"""Most extensions of a sent message, and most tasks that it refers to."""

DEFAULT_PAGE = 20
MAX_PAGE = 100
"""Most tasks on a page of a list."""


class Wire(msgspec.Struct, rename="camel", omit_defaults=True):
    """Base of the objects on the wire."""


class Part(Wire):
    """Content of a message or artifact: exactly one of text, raw, url and data."""

    text: str | None = None
    raw: str | None = None
    url: str | None = None
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    metadata: Metadata = msgspec.UNSET
    filename: str | None = None
    media_type: str | None = None


class Message(Wire):
    """One turn of a conversation. `parts` and `message_id` must not be empty."""

    message_id: str
    role: Literal["ROLE_USER", "ROLE_AGENT"]
    parts: Annotated[list[Part], Meta(extra_json_schema={"maxItems": MAX_PARTS})]
    context_id: str | None = None
    task_id: str | None = None
    metadata: Metadata = msgspec.UNSET
    extensions: Annotated[list[str], Meta(extra_json_schema={"maxItems": MAX_NAMED})] | None = None
    reference_task_ids: Annotated[list[str], Meta(extra_json_schema={"maxItems": MAX_NAMED})] | None = None


class Status(Wire):
    """The state of a task, and the time when it entered that state."""

    state: Annotated[State, Meta(examples=["TASK_STATE_COMPLETED"])]
    timestamp: str
    message: Message | None = None
    """The agent's message about this state."""


class Artifact(Wire):
    """A result of a task."""

    artifact_id: str
    parts: list[Part]
    name: str | None = None


class A2ATask(Wire):
    """A task. Fields without a value are omitted, `history` and `artifacts` also on request."""

    id: str
    context_id: str
    status: Status
    artifacts: list[Artifact] | None = None
    history: list[Message] | None = None
    metadata: dict[str, Any] | None = None


class SendMessageResponse(Wire):
    """The answer to a message: exactly one of task and message."""

    task: A2ATask | None = None
    message: Message | None = None


class ReceivedMessage(msgspec.Struct):
    """A decoded and validated SendMessageRequest."""

    message: Message
    text: str
    """The text of all parts, joined by line feeds."""
    metadata: Metadata
    history_length: int | None = None
    returns_at_once: bool = False
    """Whether the sender wants the task at once, without waiting for its end."""
    push: msgspec.Raw | None = None
    """The push notification config in the request, not yet decoded."""

    @property
    def text_field(self) -> str:
        """Name of the field that errors about the text report.

        The text is judged as a whole, so with several parts the name is that of the list.
        """
        return "message.parts.0.text" if len(self.message.parts) == 1 else "message.parts"


class HistoryQuery(msgspec.Struct, rename="camel"):
    """The query of GetTask."""

    history_length: int | None = None


class ListQuery(msgspec.Struct, rename="camel"):
    """The query of ListTasks. The handlers check `status`, which may be any text here."""

    context_id: str = ""
    status: str = ""
    page_size: int = DEFAULT_PAGE
    page_token: str = ""
    history_length: int | None = None
    status_timestamp_after: str = ""
    last_updated_after: str = ""
    include_artifacts: bool = False


class TaskList(msgspec.Struct, rename="camel"):
    """A ListTasksResponse. All four fields are always present."""

    tasks: list[A2ATask]
    next_page_token: str
    page_size: int
    total_size: int
