"""The answer to a search for offered contracts."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from node.common.unreadable import show_each
from node.search.model import FoundEntities, FoundEntity, HitMode, SearchAnswer
from node.tasks.view import StoredTask


class TaskHit(msgspec.Struct):
    """An offered contract that was found, and the passage that matches best."""

    task_id: str
    title: Annotated[str, Meta(examples=["Summarise a report about solar panels"])]
    snippet: Annotated[str, Meta(examples=["One page of plain English, with three figures."])]
    """Passage of the description; the title if there is no description."""
    score: Annotated[float, Meta(examples=[0.83])]
    url: str
    mode: HitMode
    publisher_id: Annotated[str, Meta(examples=["report-desk"])]
    skills: Annotated[list[str], Meta(examples=[["translation"]])]
    """What a worker must be able to do."""


class TaskHits(SearchAnswer):
    """The contracts found, best first."""

    hits: list[TaskHit]

    @classmethod
    def of(cls, found: FoundEntities, offers: Mapping[str, StoredTask], base: str) -> "TaskHits":
        """Make hits of the contracts that were found and are still offered (in `offers`).

        `base`: URL of a contract, without its id.
        """

        def hit_of(task_id: str, each: FoundEntity) -> TaskHit:
            fields = offers[task_id].fields
            return TaskHit(
                task_id=task_id,
                title=each.title,
                snippet=each.snippet or each.title,
                score=each.score,
                url=base + task_id,
                mode=each.mode,
                publisher_id=fields[b"publisher_id"].decode(),
                skills=msgspec.json.decode(fields.get(b"skills") or b"[]", type=list[str]),
            )

        offered = ((each.entity_id, each) for each in found.entities if each.entity_id in offers)
        hits = list(show_each(offered, hit_of).values())
        return cls(hits, mode=found.mode, lower_threshold=found.lower, incomplete=found.incomplete)
