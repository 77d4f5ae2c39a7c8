"""A2A v1.0 objects as they are on the wire: ProtoJSON names, unset fields left out.

Answers hold these fields and no others: some clients refuse a key that the protocol does not have.
What the node adds is in `metadata`, in camelCase.
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
"""An object of JSON with names of the sender's choice, as it came: converting one number such as 1e300 takes 12 µs, and
a body has room for 170,000 of them, or for 80,000 names."""

MAX_PARTS = 1000
"""Parts of a message that is sent. Nobody needs as many for plain text, and to work on 20,000 takes 20 ms."""

MAX_NAMED = 100
"""Extensions of a message that is sent, and tasks that it refers to."""

DEFAULT_PAGE = 20
MAX_PAGE = 100
"""Tasks on a page of a list."""


class Wire(msgspec.Struct, rename="camel", omit_defaults=True):
    """Base of everything that is sent."""


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
    """One turn. `parts` and `message_id` are required, which the reader checks."""

    message_id: str
    role: Literal["ROLE_USER", "ROLE_AGENT"]
    parts: Annotated[list[Part], Meta(extra_json_schema={"maxItems": MAX_PARTS})]
    context_id: str | None = None
    task_id: str | None = None
    metadata: Metadata = msgspec.UNSET
    extensions: Annotated[list[str], Meta(extra_json_schema={"maxItems": MAX_NAMED})] | None = None
    reference_task_ids: Annotated[list[str], Meta(extra_json_schema={"maxItems": MAX_NAMED})] | None = None


class Status(Wire):
    """The state of a task, and since when it is in it."""

    state: Annotated[State, Meta(examples=["TASK_STATE_COMPLETED"])]
    timestamp: str
    message: Message | None = None
    """What the agent says about it."""


class Artifact(Wire):
    """A result."""

    artifact_id: str
    parts: list[Part]
    name: str | None = None


class A2ATask(Wire):
    """A task. A field that is None is not sent; `history` and `artifacts` are left out on request."""

    id: str
    context_id: str
    status: Status
    artifacts: list[Artifact] | None = None
    history: list[Message] | None = None
    metadata: dict[str, Any] | None = None


class SendMessageResponse(Wire):
    """Exactly one of the two."""

    task: A2ATask | None = None
    message: Message | None = None


class ReceivedMessage(msgspec.Struct):
    """A SendMessageRequest that was read and found valid."""

    message: Message
    text: str
    """The text of all parts."""
    metadata: Metadata
    history_length: int | None = None
    returns_at_once: bool = False
    """Whether the sender wants the task as it is, without waiting for its end."""
    push: msgspec.Raw | None = None
    """The push notification config in the request, as it came."""

    @property
    def text_field(self) -> str:
        """Where the text is. It is judged as a whole, so none of several parts is named."""
        return "message.parts.0.text" if len(self.message.parts) == 1 else "message.parts"


class HistoryQuery(msgspec.Struct, rename="camel"):
    """The query of GetTask."""

    history_length: int | None = None


class ListQuery(msgspec.Struct, rename="camel"):
    """The query of ListTasks, as text where a reader may send what is not of the protocol."""

    context_id: str = ""
    status: str = ""
    page_size: int = DEFAULT_PAGE
    page_token: str = ""
    history_length: int | None = None
    status_timestamp_after: str = ""
    last_updated_after: str = ""
    include_artifacts: bool = False


class TaskList(msgspec.Struct, rename="camel"):
    """ListTasksResponse: all four fields are always there."""

    tasks: list[A2ATask]
    next_page_token: str
    page_size: int
    total_size: int
