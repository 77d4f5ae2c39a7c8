"""The bodies of A2A requests as the documents describe them: the members that the node looks at.

These structs are for the documents only: `request` reads the same in any spelling that ProtoJSON allows.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from node.a2a.inboxes.push_config import SentPushConfig
from node.a2a.model import Message

Params = dict[str, Any]


class SendConfiguration(msgspec.Struct, rename="camel"):
    """How the answer to a message shall be."""

    history_length: Annotated[int, Meta(ge=0, description="Messages of the history, all if left out")] | None = None


class SendMessageBody(msgspec.Struct, rename="camel"):
    """A SendMessageRequest (A2A v1.0 §3.2.1)."""

    message: Message
    configuration: SendConfiguration | None = None
    metadata: Params | None = None


class InboxConfiguration(SendConfiguration, rename="camel"):
    """How the answer of an inbox's owner shall come."""

    return_immediately: Annotated[bool, Meta(description="Answer with the task as it is, without waiting")] = False
    task_push_notification_config: SentPushConfig | None = None


class InboxMessageBody(msgspec.Struct, rename="camel"):
    """A SendMessageRequest to the agent that an inbox is."""

    message: Message
    configuration: InboxConfiguration | None = None
    metadata: Params | None = None


class CancelMetadata(msgspec.Struct, rename="camel"):
    """What shows who cancels."""

    publisher_token: (
        Annotated[str, Meta(description="That of the contract, unless the key of its offer signs")] | None
    ) = None


class CancelBody(msgspec.Struct):
    """A CancelTaskRequest (A2A v1.0 §3.1.5)."""

    metadata: CancelMetadata | None = None


class RpcBody(msgspec.Struct):
    """A JSON-RPC call. Its params are the body of the same operation over HTTP, with the ids of its path."""

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
    """Why a call failed."""

    code: int
    message: str
    data: list[Params]


class RpcAnswer(msgspec.Struct):
    """The answer to a JSON-RPC call, or an event of its stream: a result or an error."""

    jsonrpc: Literal["2.0"]
    id: str | int | None
    result: Params | UnsetType = UNSET
    error: RpcFailure | UnsetType = UNSET
