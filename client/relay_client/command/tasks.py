"""`relay task`: offer a contract, or work on what others offer."""

import asyncio
import json
from argparse import ArgumentParser, Namespace
from signal import SIGINT
from typing import Any, get_args

from relay_client.client import AsyncRelay
from relay_client.command.output import note, nothing_found, show
from relay_client.command.parser import TRIES, Commands, command, connected, group, json_of, seconds, signer, text_of
from relay_client.command.running import run, words_of
from relay_client.errors import UsageError
from relay_client.tasks import OVER, ClaimedTask, Task, TaskStatus
from relay_client.worker import TaskFailed, TaskReleased, Worker

LEASE_SECONDS = 300
ENDS: tuple[TaskStatus, ...] = ("submitted", *OVER)
"""Statuses at which a publisher stops waiting: the contract is over, or has a result to be reviewed."""
FAILED = "exec.status"
"""Failure code of an attempt whose program ends with a status other than 0."""

INTERRUPTED = (-SIGINT, 128 + SIGINT)
"""Statuses of a program ended by Ctrl-C, directly or in a shell. The terminal interrupts this process, too."""


def add(commands: Commands) -> None:
    task = group(commands, "task", "work contracts")
    offer = command(task, "offer", _offer, "offer a contract")
    offer.add_argument("title", help="plain English, one line")
    offer.add_argument("--description", help="plain English; - reads it from standard input")
    offer.add_argument(
        "--publisher", metavar="NAME", default="relay-command", help="your public name; default: %(default)s"
    )
    offer.add_argument("--skill", action="append", help="skill that a worker must have; may be repeated")
    offer.add_argument("--artifact", action="append", metavar="ID", help="id of an input artifact; may be repeated")
    offer.add_argument(
        "--lease",
        metavar="SECONDS",
        type=int,
        default=LEASE_SECONDS,
        help="how long a claim lasts unless it is extended; default: %(default)s",
    )
    offer.add_argument(
        "--attempts", metavar="N", type=int, help="how many attempts may fail before the contract fails; default: 1"
    )
    offer.add_argument(
        "--retry", metavar="SECONDS", type=int, help="pause after the first failed attempt; doubles with each"
    )
    offer.add_argument("--deadline", metavar="TIME", help="when the contract expires, in RFC 3339")
    offer.add_argument(
        "--review",
        metavar="SECONDS",
        type=int,
        help="how long you may accept or reject a result, before it counts as accepted",
    )
    offer.add_argument("--schema", metavar="FILE", help="file with a JSON Schema that the result must fit")
    offer.add_argument("--callback", metavar="URL", help="URL that is called when the contract changes")
    offer.add_argument(
        "--wait",
        metavar="SECONDS",
        type=seconds,
        help="wait this long for the result, and show it; default: do not wait",
    )
    result = command(task, "result", _result, "show the result of a contract, even before it is reviewed")
    result.add_argument("id", help="id of the contract")
    result.add_argument(
        "--wait",
        metavar="SECONDS",
        type=seconds,
        default=0.0,
        help="how long to wait for the result; default: %(default)g",
    )
    _as_publisher(command(task, "accept", _accept, "accept a submitted result"))
    reject = command(task, "reject", _reject, "send a submitted result back to its worker")
    _as_publisher(reject).add_argument("reason", help="what the worker should change")
    _as_publisher(command(task, "cancel", _cancel, "cancel a contract"))
    _as_publisher(command(task, "retry", _retry, "give a failed contract another attempt"))
    listed = command(task, "list", _list, "list contracts, newest first")
    listed.add_argument("--status", choices=get_args(TaskStatus), default="offered", help="default: %(default)s")
    listed.add_argument("--limit", type=int, default=20, help="maximum number to show; default: %(default)s")
    listed.add_argument("--skill", help="only offers that ask for this skill")
    listed.add_argument("--publisher", metavar="NAME", help="only offers of this publisher")
    find = command(task, "find", _find, "find offered contracts by meaning")
    find.add_argument("query", help="what a contract should be about, in your own words")
    find.add_argument("--limit", type=int, default=5, help="maximum number to show; default: %(default)s")
    find.add_argument("--threshold", type=float, default=0.7, help="lowest score, 0 to 1; default: %(default)s")
    work = command(task, "work", _work, "claim contracts and run a program for each, again if the result is rejected")
    work.add_argument(
        "--exec",
        metavar="COMMAND",
        required=True,
        help="program to run for each contract, with its JSON on standard input; its output is the result; "
        "a non-zero exit status fails the attempt; if Ctrl-C ends it, others may claim the contract",
    )
    work.add_argument("--name", default="relay-command", help="your public name; default: %(default)s")
    work.add_argument("--skill", action="append", default=[], help="skill that you have; may be repeated")
    work.add_argument("--query", help="what you are good at; only contracts that match are claimed, the best first")
    work.add_argument("--threshold", type=float, help="lowest score of a match, 0 to 1; default: 0.7")
    work.add_argument(
        "--publisher",
        action="append",
        metavar="NAME",
        help="work only for this publisher; may be repeated; default: for everybody, also on contracts without skills",
    )
    work.add_argument("--number", metavar="N", type=int, default=0, help="end after this many runs; default: never")


def _offer(given: Namespace) -> int:
    with connected(given) as relay:
        offered = relay.tasks.offer(
            given.publisher,
            given.title,
            text_of(given.description) if given.description else None,
            skills=given.skill,
            input_artifact_ids=given.artifact,
            lease_seconds=given.lease,
            require_proof=True,
            max_attempts=given.attempts,
            retry_seconds=given.retry,
            deadline=given.deadline,
            review_seconds=given.review,
            result_schema=json_of(given.schema) if given.schema else None,
            callback_url=given.callback,
        )
        if given.wait is None:
            show(given, offered, f"id               {offered['id']}\npublisher_token  {offered['publisher_token']}")
            return 0
        note(f"offered {offered['id']}, publisher_token {offered['publisher_token']}")
        task = relay.tasks.result(offered["id"], until=ENDS, within=given.wait)
    return _shown(given, task)


def _result(given: Namespace) -> int:
    with connected(given) as relay:
        return _shown(given, relay.tasks.result(given.id, until=ENDS, within=given.wait))


def _shown(given: Namespace, task: Task) -> int:
    """Show the result of a contract, or its status if it has no result."""
    has_result = task["status"] in ("completed", "submitted")
    if task["status"] == "submitted":
        note("this result is submitted: accept or reject it")
    for ended in task.get("attempts", ()):
        if not given.json and not has_result and (reason := ended["reason"]):
            note(f"attempt {ended['attempt']} failed: {reason['code']}: {reason['message']}")
    show(given, task, _text(task.get("result_payload")) if has_result else task["status"])
    return 0 if has_result else 1


def _as_publisher(made: ArgumentParser) -> ArgumentParser:
    made.add_argument("id", help="id of the contract")
    made.add_argument(
        "--token",
        metavar="PUBLISHER_TOKEN",
        help="publisher token, as the offer showed it; or --key, if that signed the offer",
    )
    return made


def _accept(given: Namespace) -> None:
    with connected(given) as relay:
        task = relay.tasks.accept(given.id, given.token)
    show(given, task, task["status"])


def _reject(given: Namespace) -> None:
    with connected(given) as relay:
        task = relay.tasks.reject(given.id, given.reason, given.token)
    show(given, task, task["status"])


def _cancel(given: Namespace) -> None:
    with connected(given) as relay:
        task = relay.tasks.cancel(given.id, given.token)
    show(given, task, task["status"])


def _retry(given: Namespace) -> None:
    with connected(given) as relay:
        task = relay.tasks.retry(given.id, given.token)
    show(given, task, task["status"])


def _list(given: Namespace) -> None:
    with connected(given) as relay:
        page = relay.tasks.list(given.status, limit=given.limit, skill=given.skill, publisher_id=given.publisher)
    for each in page["tasks"]:
        show(given, each, f"{each['id']}  {each['title']} ({each['publisher_id']})")


def _find(given: Namespace) -> None:
    with connected(given) as relay:
        found = relay.tasks.search(given.query, limit=given.limit, threshold=given.threshold)
    nothing_found(given, found)
    for hit in found["hits"]:
        show(given, hit, f"{hit['score']:.2f}  {hit['title']} ({hit['publisher_id']})\n      {hit['task_id']}")


def _work(given: Namespace) -> None:
    words = words_of(given.exec)
    left = given.number
    broken: Exception | None = None

    def work(task: ClaimedTask) -> Any:
        nonlocal left, broken
        left -= 1
        if left == 0:
            worker.stop()
        shown = {name: value for name, value in task.items() if name != "claim_token"}
        try:
            show(given, shown, f"claimed {task['id']} {task['title']}")
            ended = run(words, shown, RELAY_TASK_ID=task["id"])
        except (OSError, UsageError) as wrong:  # nobody reads the output, or the program cannot be run
            broken = wrong
            worker.stop()
            raise TaskReleased from wrong
        if ended.status in INTERRUPTED:
            worker.stop()
            raise TaskReleased
        if ended.status:
            raise TaskFailed(FAILED, f"The worker's program ended with status {ended.status}.")
        return result_of(ended.output)

    worker = Worker(work, given.name, given.skill, given.publisher, given.query, given.threshold)

    async def serve() -> None:
        async with AsyncRelay(given.node, deadline=given.timeout, signer=signer(given)) as relay:
            await relay.with_options(tries=TRIES).node.health()  # fail if the node is down now; later, wait for it
            await worker.until_signalled(relay)

    asyncio.run(serve())
    if broken:
        raise broken


def result_of(output: str) -> Any:
    """Return a program's output as JSON if it can be sent as such, else as text. Python alone would accept `NaN`."""
    try:
        return json.loads(output, parse_constant=_refused)
    except (ValueError, RecursionError):
        return output


def _refused(constant: str) -> Any:
    raise ValueError(constant)


def _text(result: Any) -> str:
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
