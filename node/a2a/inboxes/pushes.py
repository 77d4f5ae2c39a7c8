"""Push notifications about the tasks of inboxes: the receivers (A2A v1.0 §3.1.7-10) and the payloads (§4.3.3).

Push notifications are callbacks: the same rules apply to permitted targets, concurrency, fairness between publishers,
retries and the node's signature. A receiver is sent the same events as a stream. Changes that happen while a receiver
is slow are merged into one event, as on a slow stream.
"""

from collections.abc import Sequence

import msgspec

from node.a2a.inboxes.push_config import PushConfig, PushConfigs, shown
from node.a2a.inboxes.service import refused_as_a2a
from node.a2a.inboxes.view import StreamResponse, TaskView, course
from node.a2a.refusal import A2AError
from node.callbacks.envelope import Envelope
from node.callbacks.queue import Callback, CallbackMessage, id_of_message
from node.callbacks.sources import PreparedCallback
from node.inbox.model import MAX_PUSH_CONFIGS, InboxTask, PushTarget
from node.inbox.service import InboxPushes
from node.store.outbox import Event

PUSH = "inbox.task"
"""The kind of the outbox events, and the type of the callbacks."""


class PushConfigService:
    """Manages the receivers that are notified of changes of tasks. Every method raises StoreUnavailable."""

    def __init__(self, pushes: InboxPushes) -> None:
        self._pushes = pushes

    async def create(self, address: str, task_id: str, target: PushTarget) -> PushConfig:
        """Notify a receiver of a task's current state and of its changes. Raises A2AError, Refused `store.busy`."""
        named = target if target.id else msgspec.structs.replace(target, id=task_id)
        with refused_as_a2a(task_id):
            has_room = await self._pushes.add(address, task_id, named)
        if not has_room:
            raise _too_many(task_id)
        return shown(task_id, named)

    async def require_room(self, address: str, task_id: str, target: PushTarget) -> None:
        """Raise A2AError if a task has no room for a config."""
        others = (await self._all(address, task_id)).keys() - {target.id or task_id}
        if len(others) >= MAX_PUSH_CONFIGS:
            raise _too_many(task_id)

    async def get(self, address: str, task_id: str, config_id: str) -> PushConfig:
        """Return one config. Raises A2AError."""
        target = (await self._all(address, task_id)).get(config_id)
        if target is None:
            why = f"The task {task_id} has no push notification config {config_id[:64]}"
            raise A2AError("TASK_NOT_FOUND", why, taskId=task_id)
        return shown(task_id, target)

    async def list(self, address: str, task_id: str) -> PushConfigs:
        """Return all configs of a task. Raises A2AError."""
        return PushConfigs([shown(task_id, each) for each in (await self._all(address, task_id)).values()])

    async def delete(self, address: str, task_id: str, config_id: str) -> None:
        """Stop notifying a receiver. Idempotent: an unknown config is no error. Raises A2AError."""
        with refused_as_a2a(task_id):
            await self._pushes.remove(address, task_id, config_id)

    async def _all(self, address: str, task_id: str) -> dict[str, PushTarget]:
        with refused_as_a2a(task_id):
            return await self._pushes.all(address, task_id)


class PushSource:
    """Makes the callbacks about tasks: their messages when an event comes, their payloads at each attempt."""

    pause_ms = 0
    """Each change is sent as soon as the one before it was delivered."""

    def __init__(self, view: TaskView, pushes: InboxPushes) -> None:
        self._view = view
        self._pushes = pushes

    async def messages(self, event: Event) -> Sequence[CallbackMessage]:
        """Return one callback message for each receiver of the task that changed. Raises StoreUnavailable."""
        address, fields = event.entity, event.fields
        task_id, targets = await self._pushes.notified_of(address, fields["message"])
        only = fields.get("config")
        return [
            CallbackMessage(
                name=f"push:{task_id}:{target.id}",
                id=id_of_message(event),
                url=target.url,
                type=PUSH,
                at=event.at,
                data={
                    "inbox": address,
                    "inbox_task": task_id,
                    "message": fields["message"],
                    "status": fields["status"],
                    "config": target.id,
                    "whole": only is not None,
                },
            )
            for target in targets
            if only in (None, target.id)
        ]

    async def prepare(self, callback: Callback, host: str) -> PreparedCallback | None:
        """See CallbackSource."""
        found = await self._found(callback)
        if found is None:
            return None
        task, target = found
        data, part = callback.data, int(str(callback.data.get("part", 0)))
        events = self._events(task, str(data["message"]), str(data["status"]), whole=bool(data.get("whole")))
        if part >= len(events):
            return None
        following = None
        if part + 1 < len(events):
            message_id = f"{callback.id}_{part + 1}"  # `callback_enqueue` takes the longer id for the newer message
            more = {**data, "part": part + 1}
            following = CallbackMessage(callback.name, message_id, callback.url, PUSH, callback.at, more)
        body = msgspec.json.encode(_for(host, events[part]))
        return PreparedCallback(target.publisher, Envelope(callback.id, body, _shown_by(target)), following)

    async def forget(self, callback: Callback) -> None:
        """See CallbackSource."""
        if found := await self._found(callback):
            task, target = found
            await self._pushes.forget(str(callback.data["inbox"]), task.id, target)

    async def _found(self, callback: Callback) -> tuple[InboxTask, PushTarget] | None:
        """Return the task and config of a callback; None if either is gone or the config's URL has changed since."""
        data = callback.data
        found = await self._pushes.found(str(data["inbox"]), str(data["inbox_task"]), str(data["config"]))
        return found if found and found[1].url == callback.url else None

    def _events(self, task: InboxTask, message_id: str, status: str, *, whole: bool) -> list[StreamResponse]:
        """Return the events that a stream would send when the message got that status; empty if it never had it.

        If `whole`, return one event with the task as it was then.
        """
        numbered = [(number, turn) for number, turn in enumerate(task.turns) if turn.id == message_id]
        reported = [(number, then) for number, turn in numbered for then in course(turn) if then.status == status]
        if not reported:
            return []
        [(number, turn)] = reported
        then = msgspec.structs.replace(task, turns=[*task.turns[:number], turn])
        return [StreamResponse(task=self._view.task(then, 0))] if whole else list(self._view.events(then, turn))


def _for(host: str, event: StreamResponse) -> StreamResponse:
    """Add the receiver's host to an event, because the node signs for all receivers with the same key."""
    named = {"callbackHost": host}
    for part in (event.task, event.status_update, event.artifact_update):
        if part is not None:
            part.metadata = named
    return event


def _shown_by(target: PushTarget) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers with the config's token and credentials."""
    headers: list[tuple[bytes, bytes]] = []
    if target.token:
        headers.append((b"X-A2A-Notification-Token", target.token.encode()))
    if target.scheme and target.credentials:
        headers.append((b"Authorization", f"{target.scheme} {target.credentials}".encode()))
    return tuple(headers)


def _too_many(task_id: str) -> A2AError:
    why = f"The task {task_id} has {MAX_PUSH_CONFIGS} push notification configs, the maximum; delete one first"
    return A2AError("UNSUPPORTED_OPERATION", why, taskId=task_id)
