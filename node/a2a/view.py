"""Shows a work contract as an A2A task."""

import re
from typing import Any

import msgspec

from node.a2a.model import A2ATask, Artifact, Message, Part, State, Status
from node.tasks.model import NO_RESULT, Task

STATES: dict[str, State] = {
    "offered": "TASK_STATE_SUBMITTED",
    "claimed": "TASK_STATE_SUBMITTED",
    "in_progress": "TASK_STATE_WORKING",
    "submitted": "TASK_STATE_WORKING",
    "completed": "TASK_STATE_COMPLETED",
    "canceled": "TASK_STATE_CANCELED",
    "failed": "TASK_STATE_FAILED",
    "expired": "TASK_STATE_FAILED",
}

OPTIONS = (
    *("skills", "deadline", "max_attempts", "retry_seconds", "retry_at", "review_seconds", "rejection"),
    "result_schema",
)
"""Optional fields of a contract that are not in SPEC."""


def contract_as_task(contract: Task, publisher_token: str | None = None, history_length: int | None = None) -> A2ATask:
    """Return a contract as an A2A task: the description is its first message, the result, if any, is an artifact.

    The task never shows a claim_token.
    """
    artifacts: list[Artifact] | None = None
    result = contract.result_payload
    if result is not msgspec.UNSET and result is not NO_RESULT:
        artifacts = [Artifact(artifact_id="result", parts=[Part(data=result)])]
    metadata: dict[str, object] = {
        "kind": "workContract",
        "contractStatus": contract.status,
        "title": contract.title,
        "publisherId": contract.publisher_id,
        "isSigned": contract.is_signed,
    }
    if contract.assignee_id:
        metadata["assigneeId"] = contract.assignee_id
    if contract.input_artifact_ids:
        metadata["inputArtifactIds"] = contract.input_artifact_ids
    options = {name: getattr(contract, name) for name in OPTIONS}
    metadata |= _in_camel_case({name: value for name, value in options.items() if value is not msgspec.UNSET})
    if contract.attempts is not msgspec.UNSET:
        metadata["attempts"] = [_in_camel_case(msgspec.structs.asdict(attempt)) for attempt in contract.attempts]
    if publisher_token:
        metadata["publisherToken"] = publisher_token
    return A2ATask(
        id=contract.id,
        context_id=contract.id,
        status=Status(STATES[contract.status], contract.updated_at),
        artifacts=artifacts,
        history=None if history_length == 0 else [_offer(contract)],
        metadata=metadata,
    )


def _in_camel_case(fields: dict[str, Any]) -> dict[str, Any]:
    return {re.sub("_(.)", lambda found: found[1].upper(), name): value for name, value in fields.items()}


def _offer(contract: Task) -> Message:
    """Return the contract's description, or its title, as the message with which an A2A task begins."""
    text = contract.description or contract.title
    return Message(
        message_id=contract.id,
        role="ROLE_USER",
        parts=[Part(text=text)],
        context_id=contract.id,
        task_id=contract.id,
    )
