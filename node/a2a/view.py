"""A work contract as an A2A client sees it."""

import msgspec

from node.a2a.model import Artifact, Part, State, Status
from node.a2a.model import Task as A2ATask
from node.tasks.model import Task

STATES: dict[str, State] = {
    "offered": "TASK_STATE_SUBMITTED",
    "claimed": "TASK_STATE_SUBMITTED",
    "in_progress": "TASK_STATE_WORKING",
    "completed": "TASK_STATE_COMPLETED",
    "canceled": "TASK_STATE_CANCELED",
}


def contract_as_task(contract: Task, publisher_token: str | None = None) -> A2ATask:
    """The A2A Task of a contract; the result is an artifact. It never shows a claim_token."""
    since = contract.completed_at or contract.claimed_at or contract.created_at
    artifacts: list[Artifact] | None = None
    if contract.status == "completed":
        result = contract.result_payload
        data = result if isinstance(result, msgspec.Raw) else msgspec.Raw(msgspec.json.encode(result))
        artifacts = [Artifact(artifact_id="result", parts=[Part(data=data)])]
    metadata: dict[str, object] = {
        "kind": "workContract",
        "contractStatus": contract.status,
        "title": contract.title,
        "publisherId": contract.publisher_id,
        "isSigned": contract.is_signed,
    }
    if contract.assignee_id:
        metadata["assigneeId"] = contract.assignee_id
    if publisher_token:
        metadata["publisherToken"] = publisher_token
    return A2ATask(
        id=contract.id,
        context_id=contract.id,
        status=Status(STATES[contract.status], since),
        artifacts=artifacts,
        metadata=metadata,
    )
