"""What a search for offered contracts answers."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta

from node.search.model import FoundEntities, HitMode, SearchAnswer
from node.tasks.model import Task


class TaskHit(msgspec.Struct):
    """An offered contract that was found, and the passage that matches best."""

    task_id: str
    title: Annotated[str, Meta(examples=["Summarise a report about solar panels"])]
    snippet: Annotated[str, Meta(examples=["One page of plain English, with three figures."])]
    """Of the description; of a contract without one, its title."""
    score: Annotated[float, Meta(examples=[0.83])]
    url: str
    mode: HitMode
    publisher_id: Annotated[str, Meta(examples=["report-desk"])]
    skills: Annotated[list[str], Meta(examples=[["translation"]])]
    """What a worker must be able to do."""


class TaskHits(SearchAnswer):
    """Hits in order; `mode` says how the search was done: `text` when no embedding was at hand.

    Without a hit, `lower_threshold` says from which threshold on there would be some; absent if there would be none.
    """

    hits: list[TaskHit]

    @classmethod
    def of(cls, found: FoundEntities, tasks: Mapping[str, Task]) -> "TaskHits":
        """Of what was found, and the contracts as they are now; those that somebody has claimed are left out."""
        hits = [
            TaskHit(
                task_id=task.id,
                title=task.title,
                snippet=each.snippet or task.title,
                score=each.score,
                url=task.url,
                mode=each.mode,
                publisher_id=task.publisher_id,
                skills=[] if task.skills is UNSET else task.skills,
            )
            for each in found.entities
            if (task := tasks.get(each.entity_id))
        ]
        return cls(hits, mode=found.mode, lower_threshold=found.lower, incomplete=found.incomplete)
