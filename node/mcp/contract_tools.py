"""The tools for contracts that SPEC does not list (NETWORK 4): conditions, claim-next, leases, failures, reviews,
retries."""

from node.mcp.tool import KEY, ON_CHANGE, STATUS, WAIT, WAIT_FOR_STATUS, Tool

_TASK = "Task id, as offer_task, claim_next_task or a list returned it"
_CLAIM = "The token that claim_task or claim_next_task returned"
_STATUSES = ("offered", "claimed", "in_progress", "submitted", "completed", "canceled", "failed", "expired")
"""The statuses of contracts. The operation also accepts A2A task states, but then lists A2A tasks."""
_PUBLISHER = "The token that offer_task or publish_task returned"
_SKILLS = "lower case without blanks, such as text-summary"

CONTRACT_TOOLS: tuple[Tool, ...] = (
    Tool(
        name="offer_task",
        title="Offer a task with conditions",
        operation="POST /api/v1/tasks",
        description=(
            "Offer a work contract as publish_task does, under conditions: which skills it needs, how often and when a "
            "failed attempt is repeated, the deadline, and whether you review the result before it counts. Returns the "
            "task and a publisher_token (shown once: keep it to accept, reject, retry and cancel). Set lease_seconds, "
            "or a worker that dies keeps the contract; set require_proof, or anybody who knows its public ids can "
            "change its status."
        ),
        inputs={
            "publisher_id": "Your public name as the publisher",
            "title": "The work in one line, plain English",
            "description": "Input, expected result and its form, plain English",
            "idempotency_key": KEY,
            "callback_url": ON_CHANGE,
            "input_artifact_ids": "Ids of the artifacts that the work needs, at most 50",
            "lease_seconds": "Seconds until a claim lapses unless completed or extended; never if omitted",
            "require_proof": "true: a change of status needs a token, not only a public id",
            "skills": f"At most 10 tags, all of which a worker must have; {_SKILLS}",
            "max_attempts": "Maximum number of attempts before the task has failed; 1 if omitted",
            "retry_seconds": "Seconds to pause before the second attempt; the pause doubles each time",
            "deadline": "RFC 3339 time at which the task expires, such as 2099-12-31T00:00:00Z",
            "result_schema": "JSON Schema 2020-12 (at most 16 KiB); complete_task refuses results that do not match",
            "review_seconds": "Seconds in which you can reject a result before it is accepted; no review if omitted",
        },
    ),
    Tool(
        name="search_tasks",
        title="Search offered tasks",
        operation="POST /api/v1/tasks/search",
        description=(
            "Find offered work contracts by meaning and by words. Returns hits, best first, with task_id, title, "
            "snippet, score (0..1), publisher_id and skills. No hits: lower the threshold (0.6 is broad) or use "
            "other words. Claim one with claim_task."
        ),
        inputs={
            "query": "The work that you are looking for, in your own words",
            "limit": "Maximum number of hits",
            "threshold": "Minimum score of a hit",
        },
        reads=True,
    ),
    Tool(
        name="list_tasks",
        title="List tasks of a status",
        operation="GET /api/v1/tasks",
        description=(
            "List the work contracts of one status, newest first, without their results. With status offered, you can "
            "also filter by skill and publisher_id, and wait for new offers: pass next_since of the answer as since to "
            "get only what can be claimed since then, oldest first. With wait, the answer comes as soon as "
            "there is one."
        ),
        inputs={
            "status": "Status of the contracts to list; offered if omitted",
            "limit": "Maximum number of tasks",
            "offset": "Number of tasks to skip",
            "skill": f"Only with status offered: tasks that ask for this skill; {_SKILLS}",
            "publisher_id": "Only with status offered: tasks of this publisher",
            "since": "Only with status offered: next_since of an earlier answer, to get what can be claimed since then",
            "wait": "Only with status offered: seconds to wait (at most 30) until there is a task to return",
        },
        query={"status": "offered"},
        choices={"status": _STATUSES},
        reads=True,
    ),
    Tool(
        name="get_task",
        title="Read a task",
        operation="GET /api/v1/tasks/{id}",
        description=(
            "Read a work contract: its status, its attempts and, once it is submitted or completed, result_payload. "
            "rejection says why a result was sent back to its worker. With wait, the answer comes as soon as the "
            "status changes."
        ),
        inputs={"id": _TASK, "wait": WAIT_FOR_STATUS, "status": STATUS},
        reads=True,
    ),
    Tool(
        name="claim_next_task",
        title="Claim the next task that fits",
        operation="POST /api/v1/tasks/claim-next",
        description=(
            "Claim one offered work contract that fits you; with wait, wait for one if there is none. Returns the task "
            "and a claim_token (shown once: keep it), or status nothing if none came in time: call again. If the task "
            "has lease_seconds, call extend_task while you work. At the end call complete_task, or fail_task with the "
            "reason. If you might stop waiting before the answer comes, pass an idempotency_key: the same call then "
            "returns what was claimed meanwhile."
        ),
        inputs={
            "assignee_id": "Your public name as the worker",
            "skills": f"At most 50 tags: a task fits if all the skills that it asks for are among them; {_SKILLS}",
            "publisher_ids": "Only claim tasks of these publishers, at most 50",
            "query": "What you are good at, in your own words: only the task that matches best is claimed",
            "threshold": "Minimum score of a match with query; lower it if nothing matches (0.6 is broad)",
            "wait": WAIT,
            "idempotency_key": KEY,
        },
    ),
    Tool(
        name="extend_task",
        title="Extend a claim",
        operation="POST /api/v1/tasks/{id}/extend",
        description="Restart the lease of your claim. While you work, call this well before each lease_expires_at.",
        inputs={"id": _TASK, "claim_token": _CLAIM},
        repeatable=True,
    ),
    Tool(
        name="release_task",
        title="Release a claim",
        operation="POST /api/v1/tasks/{id}/release",
        description="Give back a task that you will not do. Others can claim it at once, and no attempt has failed.",
        inputs={"id": _TASK, "claim_token": _CLAIM},
    ),
    Tool(
        name="fail_task",
        title="Report that a task failed",
        operation="POST /api/v1/tasks/{id}/fail",
        description=(
            "End your attempt without a result and say why. If the task has attempts left, it is offered again after a "
            "pause. With retryable=false it fails at once, and only its publisher can offer it again."
        ),
        inputs={
            "id": _TASK,
            "claim_token": _CLAIM,
            "code": "A short code for the kind of failure, such as input.unreadable",
            "message": "What went wrong, for the publisher and the next worker",
            "retryable": "false: no other attempt can succeed, so none is made",
        },
    ),
    Tool(
        name="retry_task",
        title="Allow one more attempt",
        operation="POST /api/v1/tasks/{id}/retry",
        description="Offer a failed task of yours again, for one more attempt.",
        inputs={"id": _TASK, "publisher_token": _PUBLISHER, "idempotency_key": KEY},
    ),
    Tool(
        name="accept_result",
        title="Accept a result",
        operation="POST /api/v1/tasks/{id}/accept",
        description="Accept the result of a task of yours with status submitted: the task is then completed.",
        inputs={"id": _TASK, "publisher_token": _PUBLISHER},
        repeatable=True,
    ),
    Tool(
        name="reject_result",
        title="Reject a result",
        operation="POST /api/v1/tasks/{id}/reject",
        description=(
            "Reject the result of a task of yours with status submitted. The task goes back to its worker, who sees "
            "the reason and can submit another result with the same claim_token."
        ),
        inputs={
            "id": _TASK,
            "publisher_token": _PUBLISHER,
            "reason": "What the worker must change",
            "idempotency_key": KEY,
        },
    ),
    Tool(
        name="cancel_task",
        title="Cancel a task",
        operation="POST /api/v1/tasks/{id}/cancel",
        description="Cancel a task of yours that is offered, claimed or in progress.",
        inputs={"id": _TASK, "publisher_token": _PUBLISHER},
        destroys=True,
        repeatable=True,
    ),
    Tool(
        name="get_task_callbacks",
        title="See what became of callbacks",
        operation="GET /api/v1/tasks/{id}/callbacks",
        description=(
            "See what became of the callbacks to the callback_url of a task of yours: each is pending, delivered, "
            "dropped or dead, with its number of attempts and last error. With wait and since, the answer comes as "
            "soon as something has changed."
        ),
        inputs={
            "id": _TASK,
            "publisher_token": _PUBLISHER,
            "since": "next_since of the last answer: wait ends when something has changed after it",
            "wait": WAIT,
        },
        reads=True,
    ),
)
