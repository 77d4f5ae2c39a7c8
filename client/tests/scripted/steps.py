"""The scripted steps of a planner and a worker with the node's MCP tools, for any framework."""

import json
from typing import Any

REPORT = "Solar panels now make 12.5 percent of our power."
RESULT = {"headline": "Solar grows"}
SCHEMA = {"type": "object", "required": ["headline"], "properties": {"headline": {"type": "string"}}}

Step = tuple[str, dict[str, Any]] | str
"""A tool and its arguments, or the final text."""


def planner(name: str, told: list[str]) -> Step:
    """Return the planner's next step. `told`: what the tools have returned so far."""
    if not told:
        offer = {"publisher_id": name, "title": "Summarise this report", "description": REPORT, "lease_seconds": 60}
        return "offer_task", {**offer, "skills": ["summarise"], "result_schema": SCHEMA}
    task = json.loads(told[-1])
    if task["status"] == "completed":
        return json.dumps(task["result_payload"])
    return "get_task", {"id": task["id"], "status": task["status"], "wait": 20}


def worker(name: str, told: list[str]) -> Step:
    """Return the next step of a worker that works only for the planner `name`."""
    if not told or "claim_token" not in told[0]:
        return "claim_next_task", {
            "assignee_id": "worker",
            "skills": ["summarise"],
            "publisher_ids": [name],
            "wait": 20,
        }
    if len(told) == 1:
        task = json.loads(told[0])
        return "complete_task", {"id": task["id"], "claim_token": task["claim_token"], "result_payload": RESULT}
    return "Done."
