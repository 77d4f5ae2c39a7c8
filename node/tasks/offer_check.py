"""Judges an offer before it becomes a contract: its texts, callback target, inputs and result schema."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from node.callbacks.target_check import TargetCheck
from node.common.refusal import Invalid, Issue, Refused
from node.common.timestamps import LAST_MS
from node.tasks.model import NewTask
from node.tasks.result_schema import require_schema
from node.text.faults import require_all
from node.text.lines import require_name, require_text, require_title
from node.text.readable import readable

ArtifactStatuses = Callable[[Sequence[str]], Awaitable[Mapping[str, str]]]
"""Returns the status of each artifact among the ids; other ids are left out."""

WITHOUT_BYTES = ("rejected", "expired")
"""Statuses of artifacts whose bytes no worker could read."""


class OfferCheck:
    """Judges offers."""

    def __init__(self, targets: TargetCheck, artifact_statuses: ArtifactStatuses) -> None:
        self._targets = targets
        self._artifact_statuses = artifact_statuses

    async def fields(self, new: NewTask, client: str) -> dict[str, str | bytes]:
        """Return the fields that are stored for an offer. Raises Invalid, Refused `language.not_english`,
        `artifact.unusable`, `task.schema_dear`.
        """
        title, description = new.title, readable(new.description or "")
        options: dict[str, str | bytes] = {}
        require_all(
            lambda: require_text("publisher_id", new.publisher_id),
            lambda: require_name("publisher_id", new.publisher_id),
            lambda: require_text("title", title),
            lambda: require_title("title", title),
            lambda: options.update(_options(new)),
            title=title,
            description=description,
        )
        fields: dict[str, str | bytes] = {"publisher_id": new.publisher_id, "title": title}
        if description:
            fields["description"] = description
        fields |= options
        if new.callback_url is not None:
            fields |= await self._targets.accept(new.callback_url, client)
        if new.input_artifact_ids:
            await self._check_inputs(new.input_artifact_ids)
            fields["input_artifact_ids"] = msgspec.json.encode(new.input_artifact_ids)
        if new.lease_seconds is not None:
            fields["lease_ms"] = str(new.lease_seconds * 1000)
        return fields

    async def _check_inputs(self, artifact_ids: Sequence[str]) -> None:
        statuses = await self._artifact_statuses(artifact_ids)
        issues = [
            Issue(("body", "input_artifact_ids", index), "no artifact has this id", "value_error", input=artifact_id)
            for index, artifact_id in enumerate(artifact_ids)
            if artifact_id not in statuses
        ]
        if issues:
            raise Invalid(issues)
        for index, artifact_id in enumerate(artifact_ids):
            if (status := statuses[artifact_id]) in WITHOUT_BYTES:
                raise Refused("artifact.unusable", loc=("body", "input_artifact_ids", index), status=status)


def _options(new: NewTask) -> dict[str, str | bytes]:
    """Return the fields for the options beyond SPEC, except the deadline, which is a separate argument of the step.

    Raises Invalid, Refused `task.schema_dear`.
    """
    fields: dict[str, str | bytes] = {}
    issues: list[Issue] = []
    if new.skills:
        fields["skills"] = msgspec.json.encode(sorted(set(new.skills)))
    if new.max_attempts is not None:
        fields["max_attempts"] = str(new.max_attempts)
    if new.retry_seconds is not None:
        if (new.max_attempts or 1) < 2:
            issues.append(Issue(("body", "retry_seconds"), "needs max_attempts of at least 2", "value_error"))
        fields["retry_ms"] = str(new.retry_seconds * 1000)
    if new.review_seconds is not None:
        fields["review_ms"] = str(new.review_seconds * 1000)
    if new.result_schema is not None:
        try:
            fields["result_schema"] = require_schema(new.result_schema)
        except Invalid as invalid:
            issues += invalid.issues
    if new.deadline and new.deadline.timestamp() * 1000 > LAST_MS:
        issues.append(Issue(("body", "deadline"), "must be before the year 10000 in UTC", "value_error"))
    if issues:
        raise Invalid(issues)
    if fields or new.deadline:
        fields["more"] = "1"
    return fields
