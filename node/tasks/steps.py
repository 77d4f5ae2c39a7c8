"""What a step on a contract is given and what it comes to; and what it comes to once the contract is compacted.

A contract that is over never changes again, so a step on a compacted one needs no script: the rules of the
steps for `completed` and `canceled` are here once more, and a test holds the two against each other.
"""

import msgspec
import orjson

from node.common.canonical_json import canonical
from node.tasks.rights import Claim
from node.tasks.view import StoredTask


class StepResult(msgspec.Struct, frozen=True):
    """How a step ended."""

    kind: str
    """What was done; `refused` if nothing was."""
    id: str
    row: StoredTask = StoredTask(0, {})
    """The contract afterwards; not for `refused`, nor for a `replayed` creation."""
    refusal: str = ""
    """The code of the catalogue."""
    status: str = ""
    """That of the contract which was refused."""


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """Who says to act on a contract, and what they have shown for it."""

    actor: str = ""
    has_publisher_token: bool = False
    grip: Claim | None = None
    signer: str = ""
    replay_id: str = ""


def claim_refused(task_id: str, row: StoredTask) -> StepResult:
    """A claim of a contract that is over."""
    return _refused(task_id, row, "task.state")


def holding_refused(task_id: str, row: StoredTask, grip: Claim) -> StepResult:
    """An extension or a release of a claim that is over."""
    return _refused(task_id, row, "task.state" if _holds(row, grip) else "task.token")


def completed_again(task_id: str, row: StoredTask, grip: Claim, result: bytes) -> StepResult:
    """A completion of a contract that is over: the same one gets the same answer."""
    if not _holds(row, grip):
        return _refused(task_id, row, "task.token")
    if row.status == "canceled":
        return _refused(task_id, row, "task.state")
    if not _is_same(row.fields.get(b"result_payload", b"null"), result):
        return _refused(task_id, row, "task.completed")
    return StepResult("completed", task_id, row)


def move_refused(task_id: str, row: StoredTask, acting: Actor) -> StepResult:
    """A transition of a contract that is over."""
    fields, actor = row.fields, acting.actor.encode()
    holder = acting.grip is not None and _holds(row, acting.grip)
    publisher, assignee = fields.get(b"publisher_id"), fields.get(b"assignee_id")
    if acting.grip is not None and not holder:
        return _refused(task_id, row, "task.token")
    if actor not in (publisher, assignee):
        return _refused(task_id, row, "task.actor")
    proven = (actor == publisher and _is_publisher(row, acting)) or (actor == assignee and holder)
    return _refused(task_id, row, "task.proof" if b"bound" in fields and not proven else "task.state")


def canceled_again(task_id: str, row: StoredTask, acting: Actor) -> StepResult:
    """A cancellation of a contract that is over."""
    if not _is_publisher(row, acting):
        return _refused(task_id, row, "task.proof")
    return _refused(task_id, row, "task.state") if row.status == "completed" else StepResult("canceled", task_id, row)


def _refused(task_id: str, row: StoredTask, code: str) -> StepResult:
    return StepResult("refused", task_id, refusal=code, status=row.status)


def _is_same(result: bytes, other: bytes) -> bool:
    """Whether two results are the same JSON, whatever their spaces and the order of their members."""
    return result == other or canonical(result, orjson.loads(result)) == canonical(other, orjson.loads(other))


def _holds(row: StoredTask, grip: Claim) -> bool:
    found = row.fields.get(b"attempt"), row.fields.get(b"claim")
    return found == (grip.attempt.encode(), grip.request.encode())


def _is_publisher(row: StoredTask, acting: Actor) -> bool:
    return acting.has_publisher_token or (acting.signer != "" and row.fields.get(b"signer") == acting.signer.encode())
