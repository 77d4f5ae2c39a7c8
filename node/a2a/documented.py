"""A2A request bodies and query parameters as the API documents describe them: the members that the node reads.

These structs are for the documents only; `request` decodes bodies in any spelling that ProtoJSON allows. The paths that
A2A clients share with readers of contracts document the parameters of both. Contract parameters are decoded into
structs of `node.tasks.model`, A2A parameters into `ListQuery` and `HistoryQuery`. No A2A parameter has a default here:
a generated client that sent the default would get the A2A list instead of the contracts.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from node.a2a.inboxes.push_config import SentPushConfig
from node.a2a.model import DEFAULT_PAGE, MAX_PAGE, Message, State
from node.tasks.model import (
    OfferPublisher,
    OfferSince,
    OfferSkill,
    OfferWait,
    PageLimit,
    PageOffset,
    TaskQuery,
    TaskStatus,
)

Params = dict[str, Any]


class SendConfiguration(msgspec.Struct, rename="camel"):
    """Options of the answer to a message."""

    history_length: (
        Annotated[int, Meta(ge=0, description="Maximum number of messages in the history; all if omitted")] | None
    ) = None


class SendMessageBody(msgspec.Struct, rename="camel"):
    """A SendMessageRequest (A2A v1.0 §3.2.1)."""

    message: Message
    configuration: SendConfiguration | None = None
    metadata: Params | None = None


class InboxConfiguration(SendConfiguration, rename="camel"):
    """Options of the answer to a message to an inbox."""

    return_immediately: Annotated[
        bool, Meta(description="True: answer with the task at once; false: wait up to 30 s for the owner's answer")
    ] = False
    task_push_notification_config: SentPushConfig | None = None


class InboxMessageBody(msgspec.Struct, rename="camel"):
    """A SendMessageRequest to an inbox's agent."""

    message: Message
    configuration: InboxConfiguration | None = None
    metadata: Params | None = None


class CancelMetadata(msgspec.Struct, rename="camel"):
    """Proof that the caller may cancel the contract."""

    publisher_token: (
        Annotated[
            str,
            Meta(description="The contract's publisher token; not needed if the key of the offer signs the request"),
        ]
        | None
    ) = None


class CancelBody(msgspec.Struct):
    """A CancelTaskRequest (A2A v1.0 §3.1.5)."""

    metadata: CancelMetadata | None = None


class RpcBody(msgspec.Struct):
    """A JSON-RPC call. Its params are the body of the same operation over HTTP, plus the ids in its path."""

    jsonrpc: Literal["2.0"]
    method: Literal[
        "SendMessage",
        "SendStreamingMessage",
        "GetTask",
        "ListTasks",
        "CancelTask",
        "SubscribeToTask",
        "CreateTaskPushNotificationConfig",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "DeleteTaskPushNotificationConfig",
        "GetExtendedAgentCard",
    ]
    id: Annotated[str, Meta(max_length=256)] | int | None
    params: Params | UnsetType = UNSET


class RpcFailure(msgspec.Struct):
    """The JSON-RPC error of a failed call."""

    code: int
    message: str
    data: list[Params]


class RpcAnswer(msgspec.Struct):
    """The answer to a JSON-RPC call, or an event of its stream: a result or an error."""

    jsonrpc: Literal["2.0"]
    id: str | int | None
    result: Params | UnsetType = UNSET
    error: RpcFailure | UnsetType = UNSET


HistoryLength = Annotated[
    int, Meta(ge=0, description="A2A: maximum number of messages in a task's history; all if omitted")
]


class ListParameters(msgspec.Struct, rename="camel", kw_only=True):
    """The query of GET /api/v1/tasks."""

    status: (
        Annotated[
            Literal[TaskStatus, State],
            Meta(
                description="A contract status lists contracts, a TASK_STATE lists A2A tasks. If omitted: offered "
                "contracts if a parameter of contracts is given, such as limit; else A2A tasks"
            ),
        ]
        | None
    ) = None
    limit: PageLimit = 20
    offset: PageOffset = 0
    wait: OfferWait | None = None
    since: OfferSince | None = None
    skill: OfferSkill | None = None
    publisher_id: OfferPublisher | None = msgspec.field(name="publisher_id", default=None)
    context_id: (
        Annotated[
            str,
            Meta(
                description="A2A: list the tasks of this context; without it, the list is empty. In a context whose id "
                "clients chose, only the caller's own tasks are listed"
            ),
        ]
        | None
    ) = None
    page_size: (
        Annotated[
            int,
            Meta(ge=1, le=MAX_PAGE, description=f"A2A: maximum number of tasks on a page; {DEFAULT_PAGE} if omitted"),
        ]
        | None
    ) = None
    page_token: Annotated[str, Meta(description="A2A: nextPageToken of the previous page")] | None = None
    history_length: HistoryLength | None = None
    include_artifacts: (
        Annotated[bool, Meta(description="A2A: true includes the artifacts, which are otherwise omitted")] | None
    ) = None
    status_timestamp_after: (
        Annotated[str, Meta(description="A2A: only tasks with a status timestamp at or after this time (RFC 3339)")]
        | None
    ) = None


class ReadParameters(TaskQuery, rename="camel", kw_only=True):
    """The query of GET /api/v1/tasks/{id}."""

    history_length: HistoryLength | None = None
