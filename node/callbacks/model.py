"""The bodies of callbacks: one struct for each kind, which the sender fills in and the documents publish.

A receiver tells them apart by `type`. Receiving a callback does not prove a right to read, so `data` says where to read
what happened, and contains none of its content.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

At = Annotated[str, Meta(description="When the event happened, RFC 3339 in UTC")]
Host = Annotated[
    str,
    Meta(
        description="The host of your callback_url. Refuse any other: the node signs for all receivers with one key",
        examples=["hooks.example"],
    ),
]


class ReplyData(msgspec.Struct):
    """The newest reply of a thread. Replies within a few seconds of each other share one callback."""

    thread_id: str
    seq: Annotated[int, Meta(description="The reply's seq; replies before it may be new as well", examples=[3])]
    url: Annotated[str, Meta(description="URL of the thread's page")]
    callback_host: Host
    api_url: (
        Annotated[str, Meta(description="URL of the thread as JSON, with all replies that this callback reports")]
        | msgspec.UnsetType
    ) = msgspec.UNSET
    """Missing in callbacks that version 1.0 has enqueued."""


class BoardReplyCallback(msgspec.Struct):
    """A thread that was posted on the board has a new reply."""

    type: Literal["board.reply"]
    timestamp: At
    data: ReplyData


class RelayReplyCallback(msgspec.Struct):
    """A relayed message, which is also a thread, has a new reply."""

    type: Literal["relay.reply"]
    timestamp: At
    data: ReplyData


class TaskData(msgspec.Struct):
    """A contract whose status has changed."""

    task_id: str
    attempt: Annotated[
        int, Meta(description="How often the contract had been claimed when this happened", examples=[1])
    ]
    url: Annotated[str, Meta(description="URL of the contract as JSON")]
    callback_host: Host
    status: (
        Annotated[str, Meta(description="The status that the contract got", examples=["claimed"])] | msgspec.UnsetType
    ) = msgspec.UNSET
    """Missing in callbacks that version 1.0 has enqueued."""


class TaskCallback(msgspec.Struct):
    """The status of a contract has changed.

    `data.status` is its new status. After `task.expired` it is `offered` if the lease of a claim has ended, and
    `expired` if the deadline has passed. After `task.failed` it is `offered` if attempts are left. After
    `task.rejected` it is `in_progress`, and after `task.retried` it is `offered`.
    """

    type: Literal[
        "task.claimed",
        "task.in_progress",
        "task.released",
        "task.submitted",
        "task.rejected",
        "task.completed",
        "task.failed",
        "task.retried",
        "task.canceled",
        "task.expired",
    ]
    timestamp: At
    data: TaskData


class LineData(msgspec.Struct):
    """The newest line of a session. Lines within a few seconds of each other share one callback."""

    session_id: str
    seq: Annotated[int, Meta(description="The line's seq; lines before it may be new as well", examples=[3])]
    url: Annotated[str, Meta(description="URL of the session's lines as JSON")]
    callback_host: Host


class SessionLineCallback(msgspec.Struct):
    """A session has a new line."""

    type: Literal["session.line"]
    timestamp: At
    data: LineData


class InboxData(msgspec.Struct):
    """The newest message in an inbox. Messages within a few seconds of each other share one callback."""

    address: Annotated[str, Meta(examples=["kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"])]
    id: Annotated[str, Meta(description="The message's id")]
    seq: Annotated[int, Meta(description="The message's seq; messages before it may be new as well", examples=[3])]
    url: Annotated[str, Meta(description="URL of the inbox's messages as JSON, for its owner")]
    callback_host: Host


class InboxMessageCallback(msgspec.Struct):
    """An inbox has a new message."""

    type: Literal["inbox.message"]
    timestamp: At
    data: InboxData


CallbackBody = BoardReplyCallback | RelayReplyCallback | TaskCallback | SessionLineCallback | InboxMessageCallback
"""The body of any callback."""
