"""Shows a chain of messages to an inbox as an A2A task, and its changes as stream events (A2A v1.0 §4)."""

from collections.abc import Iterator
from typing import Any

import msgspec

from node.a2a.model import A2ATask, Artifact, Message, Part, State, Status, Wire
from node.common.timestamps import timestamp
from node.inbox.model import InboxMessageStatus, InboxTask, InboxTurn

STATES: dict[InboxMessageStatus, State] = {
    "queued": "TASK_STATE_SUBMITTED",
    "read": "TASK_STATE_WORKING",
    "done": "TASK_STATE_COMPLETED",
    "refused": "TASK_STATE_REJECTED",
    "input_required": "TASK_STATE_INPUT_REQUIRED",
    "expired": "TASK_STATE_FAILED",
    "withdrawn": "TASK_STATE_CANCELED",
}

ENDS: frozenset[InboxMessageStatus] = frozenset({"done", "refused", "expired", "withdrawn"})
"""Statuses of a task's last message with which the task is over."""

PAUSES: frozenset[InboxMessageStatus] = frozenset({*ENDS, "input_required"})
"""Statuses of a task's last message in which the task is over or waits for its sender."""

_MESSAGE = msgspec.json.Decoder(Message)


class StatusUpdate(Wire):
    """The new status of a task."""

    task_id: str
    context_id: str
    status: Status
    metadata: dict[str, Any] | None = None


class ArtifactUpdate(Wire):
    """A result of a task."""

    task_id: str
    context_id: str
    artifact: Artifact
    last_chunk: bool = False
    metadata: dict[str, Any] | None = None


class StreamResponse(Wire):
    """An event of a stream: exactly one of task, statusUpdate and artifactUpdate."""

    task: A2ATask | None = None
    status_update: StatusUpdate | None = None
    artifact_update: ArtifactUpdate | None = None


def latest(task: InboxTask) -> InboxTask:
    """Return a task with its last message only. A waiting request keeps no more, because 32 messages take 2.5 MB."""
    return msgspec.structs.replace(task, turns=task.turns[-1:])


class TaskView:
    """Converts tasks to A2A. `base` is the node's public URL, to which artifact paths are appended."""

    def __init__(self, base: str) -> None:
        self._artifacts = f"{base}/api/v1/artifacts/"

    def task(self, task: InboxTask, history_length: int | None = None) -> A2ATask:
        """Return a task with the last `history_length` messages of its history; all if None."""
        turns = task.turns if history_length != 0 else []
        history = [message for turn in turns for message in self._messages(task, turn)]
        kept = history[-history_length:] if history_length else history
        artifact = self._artifact(task.last)
        return A2ATask(
            id=task.id,
            context_id=task.context,
            status=self._status(task, task.last),
            artifacts=[artifact] if artifact else None,
            history=kept or None,
        )

    def events(self, task: InboxTask, message: InboxTurn, before: InboxTurn | None = None) -> Iterator[StreamResponse]:
        """Yield the stream events of a message's status changes since `before`, the task's last message as sent so far.

        Every stream of a task sends the same events (A2A v1.0 §3.5.2), even one that reads the task only after two
        changes. Without `before`, the events report only the message's current status.
        """
        for turn in _passed(message, before) if before else [message]:
            if artifact := self._artifact(turn):
                yield StreamResponse(artifact_update=ArtifactUpdate(task.id, task.context, artifact, last_chunk=True))
            yield StreamResponse(status_update=StatusUpdate(task.id, task.context, self._status(task, turn)))

    def _status(self, task: InboxTask, last: InboxTurn) -> Status:
        said = self._answer(task, last) if last.status in {"refused", "input_required"} else None
        return Status(STATES[last.status], timestamp(last.at), said)

    def _messages(self, task: InboxTask, turn: InboxTurn) -> Iterator[Message]:
        """Yield a message and, if the task went on or was canceled after it, the owner's question."""
        said = _MESSAGE.decode(turn.said)
        yield msgspec.structs.replace(said, task_id=task.id, context_id=task.context)
        if (turn is not task.last or turn.status == "withdrawn") and (asked := self._answer(task, turn)):
            yield asked

    def _answer(self, task: InboxTask, turn: InboxTurn) -> Message | None:
        parts = self._parts(turn)
        if not parts:
            return None
        return Message(f"{turn.id}-reply", "ROLE_AGENT", parts, context_id=task.context, task_id=task.id)

    def _artifact(self, turn: InboxTurn) -> Artifact | None:
        parts = self._parts(turn) if turn.status == "done" else []
        return Artifact(artifact_id=f"{turn.id}-reply", parts=parts, name="reply") if parts else None

    def _parts(self, turn: InboxTurn) -> list[Part]:
        """Return the owner's reply: text, or ciphertext that only the sender can read, and the URLs of artifacts."""
        parts: list[Part] = []
        if turn.reply is not None:
            parts.append(Part(text=turn.reply, media_type="text/plain"))
        if turn.reply_ciphertext is not None:
            parts.append(Part(raw=turn.reply_ciphertext, media_type="application/octet-stream"))
        parts += [Part(url=f"{self._artifacts}{each}/content") for each in turn.artifact_ids]
        return parts


def course(turn: InboxTurn) -> list[InboxTurn]:
    """Return the message in each status that it has had."""
    earlier: list[tuple[InboxMessageStatus, int | None]] = [
        ("queued", turn.sent_at),
        ("read", turn.read_at),
        ("input_required", turn.asked_at),
    ]
    passed = [
        msgspec.structs.replace(turn, status=status, at=at)
        for status, at in earlier
        if at is not None and status != turn.status
    ]
    return [*passed, turn]


def _passed(turn: InboxTurn, before: InboxTurn) -> list[InboxTurn]:
    """Return the message in each status that it has had since `before`.

    If `before` is another message, these are all its statuses since it was sent.
    """
    passed = course(turn)
    statuses = [each.status for each in passed]
    known = statuses.index(before.status) + 1 if before.id == turn.id and before.status in statuses else 0
    return passed[known:]
