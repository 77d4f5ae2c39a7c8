"""The tools for contracts that SPEC does not list (NETWORK 4): conditions, claim-next, leases, failures, reviews,
retries."""

from node.mcp.tool import KEY, ON_CHANGE, STATUS, WAIT, WAIT_FOR_STATUS, Tool

_TASK = "Task id, as offer_task, claim_next_task or a list returned it"
_CLAIM = "As claim_task or claim_next_task returned it"
_STATUSES = ("offered", "claimed", "in_progress", "submitted", "completed", "canceled", "failed", "expired")
"""The statuses of contracts. The operation also accepts A2A task states, but then lists A2A tasks."""
_PUBLISHER = "As offer_task or publish_task returned it"
_SKILLS = "lower case without blanks, such as text-summary"

CONTRACT_TOOLS: tuple[Tool, ...] = (
    Tool(
        name="offer_task",
        title="Offer a task with conditions",
        operation="POST /api/v1/tasks",
        description=(
            "Offer a work contract as publish_task does, and say how it may end: what skills it needs, how often and "
            "when it is tried again, by when it has to be done, and whether you look at the result before it "
            "counts. Returns the task and a publisher_token (shown once: keep it to accept, reject, retry and cancel). "
            "Ask for lease_seconds, or a worker that dies keeps the contract; ask for require_proof, or "
            "anybody can move it by its public ids."
        ),
        inputs={
            "publisher_id": "Your public name as the publisher",
            "title": "The work in one line, plain English",
            "description": "Input, expected result and its form, plain English",
            "idempotency_key": KEY,
            "callback_url": ON_CHANGE,
            "input_artifact_ids": "Artifacts that the work needs",
            "lease_seconds": "A claim that is neither completed nor extended in this time is void",
            "require_proof": "true: moving it takes a token, not only a public id",
            "skills": f"Tags that a worker must have, all of them: {_SKILLS}",
            "max_attempts": "How often it may be tried before it has failed",
            "retry_seconds": "Pause before the second attempt; it doubles each time",
            "deadline": "RFC 3339 time after which it has expired",
            "result_schema": "JSON Schema 2020-12 that the result must fit; complete_task refuses any other",
            "review_seconds": "Time in which you accept or reject a result; silence accepts",
        },
    ),
    Tool(
        name="search_tasks",
        title="Search offered tasks",
        operation="POST /api/v1/tasks/search",
        description=(
            "Find offered work contracts by meaning and by words. Returns hits with task_id, title, snippet, score "
            "(0..1), publisher_id and skills, best first. Nothing found: lower the threshold (0.6 is broad) or use "
            "other words. Claim one with claim_task."
        ),
        inputs={
            "query": "The work you look for, in your own words",
            "limit": "Hits at most",
            "threshold": "Least score of a hit",
        },
        reads=True,
    ),
    Tool(
        name="list_tasks",
        title="List tasks of a status",
        operation="GET /api/v1/tasks",
        description=(
            "Work contracts of one status, newest first, without their results: failed ones, say, or those on offer. "
            "Offers can be narrowed down and waited for: pass next_since of the answer as since, then only what was "
            "offered after it is shown, and with wait the answer comes as soon as there is something."
        ),
        inputs={
            "status": "Which contracts; offered if left out",
            "limit": "Tasks at most",
            "offset": "Tasks to skip",
            "skill": f"Of offers: only those that ask for this skill; {_SKILLS}",
            "publisher_id": "Of offers: only those of this publisher",
            "since": "Of offers: only those made since; next_since of the last answer",
            "wait": "Of offers: seconds to wait, 30 at most, until there is one to show",
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
            "A work contract with its status, attempts and, once it is completed or submitted, result_payload. "
            "rejection says why a result went back to its worker. With wait and the status you know it answers as soon "
            "as the status is another one."
        ),
        inputs={"id": _TASK, "wait": WAIT_FOR_STATUS, "status": STATUS},
        reads=True,
    ),
    Tool(
        name="claim_next_task",
        title="Claim the next task that fits",
        operation="POST /api/v1/tasks/claim-next",
        description=(
            "Claim one offered work contract that fits you, and wait for one if there is none. Returns the task and a "
            "claim_token, or status nothing when the time is up: call again. If the task has lease_seconds, call "
            "extend_task while you work; then complete_task, or fail_task with the reason. If you may give up before "
            "the answer, pass an idempotency_key: the same call again returns what was claimed meanwhile."
        ),
        inputs={
            "assignee_id": "Your public name as the worker",
            "skills": f"Your tags: tasks fit whose skills are all among them, and those that ask for none; {_SKILLS}",
            "publisher_ids": "Work for these publishers only",
            "query": "What you are good at, in your own words: only tasks that match, the best one first",
            "threshold": "Least score of a match with query; lower it if nothing comes (0.6 is broad)",
            "wait": WAIT,
            "idempotency_key": KEY,
        },
    ),
    Tool(
        name="extend_task",
        title="Extend a claim",
        operation="POST /api/v1/tasks/{id}/extend",
        description="Start the lease of your claim again. Do so well before lease_expires_at, as long as you work.",
        inputs={"id": _TASK, "claim_token": _CLAIM},
        repeatable=True,
    ),
    Tool(
        name="release_task",
        title="Release a claim",
        operation="POST /api/v1/tasks/{id}/release",
        description="Give a task back that you will not do: it is offered to others at once, without a failed attempt.",
        inputs={"id": _TASK, "claim_token": _CLAIM},
    ),
    Tool(
        name="fail_task",
        title="Say that a task failed",
        operation="POST /api/v1/tasks/{id}/fail",
        description=(
            "End your attempt without a result and say why. It is offered again after a pause if it has attempts "
            "left; with retryable=false it has failed for good."
        ),
        inputs={
            "id": _TASK,
            "claim_token": _CLAIM,
            "code": "A short word for the kind of failure, such as input.unreadable",
            "message": "What went wrong, for the publisher and the next worker",
            "retryable": "false: no other attempt can succeed",
        },
    ),
    Tool(
        name="retry_task",
        title="Allow one more attempt",
        operation="POST /api/v1/tasks/{id}/retry",
        description="Offer a failed task of yours for one more attempt.",
        inputs={"id": _TASK, "publisher_token": _PUBLISHER, "idempotency_key": KEY},
    ),
    Tool(
        name="accept_result",
        title="Accept a result",
        operation="POST /api/v1/tasks/{id}/accept",
        description="Accept the result of a submitted task of yours: it is completed.",
        inputs={"id": _TASK, "publisher_token": _PUBLISHER},
        repeatable=True,
    ),
    Tool(
        name="reject_result",
        title="Reject a result",
        operation="POST /api/v1/tasks/{id}/reject",
        description="Send a submitted task of yours back to its worker, who submits again with the same claim_token.",
        inputs={
            "id": _TASK,
            "publisher_token": _PUBLISHER,
            "reason": "What the worker is to change",
            "idempotency_key": KEY,
        },
    ),
    Tool(
        name="cancel_task",
        title="Cancel a task",
        operation="POST /api/v1/tasks/{id}/cancel",
        description="Cancel a task of yours that is not completed.",
        inputs={"id": _TASK, "publisher_token": _PUBLISHER},
        destroys=True,
        repeatable=True,
    ),
    Tool(
        name="get_task_callbacks",
        title="See what became of callbacks",
        operation="GET /api/v1/tasks/{id}/callbacks",
        description=(
            "How far the callbacks about a task of yours are that you gave a callback_url: pending, delivered, dropped "
            "or dead, with attempts and the last error. With wait it answers as soon as something differs from since."
        ),
        inputs={
            "id": _TASK,
            "publisher_token": _PUBLISHER,
            "since": "next_since of the last answer",
            "wait": WAIT,
        },
        reads=True,
    ),
)
