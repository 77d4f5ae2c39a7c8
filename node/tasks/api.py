"""/api/v1/tasks for clients of work contracts (SPEC 4.3). `node.a2a.tasks_api` serves A2A clients on the same paths.

Search and claim-next, by which workers find a contract, are in `offers/api.py`.
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

from node.callbacks.model import TaskCallback
from node.common.refusal import Refused
from node.sign.signed import Signed
from node.store.idempotency import RETRY_SECONDS, SECRET_KEY_LENGTH, IdempotencyKey
from node.tasks import examples
from node.tasks.model import (
    SHOWN_FIELDS,
    Cancellation,
    ClaimedTask,
    CompletedTask,
    Completion,
    FailedAttempt,
    Holding,
    NewClaim,
    NewTask,
    OfferedTask,
    Rejection,
    Task,
    TaskPage,
    TaskPageQuery,
    TaskQuery,
    Transition,
)
from node.tasks.service import Tasks
from node.web.bearer import bearer_of
from node.web.http import Request, Response, created, json_response
from node.web.idempotency import idempotency_key, mark_replayed
from node.web.json import read_json, read_optional_json, read_query
from node.web.limits import Limiter
from node.web.route import Operation, Route, routes_of
from node.web.signature import Signatures

T = TypeVar("T")

RepeatableStep = Callable[[str, T, Signed, IdempotencyKey | None], Awaitable[tuple[Task, bool]]]
"""Takes the contract's id, a body, the signature and the Idempotency-Key. Returns the contract, and whether the same
request had done it before."""

CONFLICT = "idempotency.conflict"
SHORT = "idempotency.short"
DEADLINE = "task.deadline"

SHORT_KEYS = (
    f"A shorter key (not counting ids and names in it) works only from the same address, and for {RETRY_SECONDS} s"
)
REPEATED_OFFER = (
    f"A secret of at least {SECRET_KEY_LENGTH} random characters. The same body with the same key, from any address, "
    "gets the same contract with its publisher_token again; another body of the same publisher_id gets 422. "
    f"{SHORT_KEYS}"
)
REPEATED_CLAIM = (
    f"A secret of at least {SECRET_KEY_LENGTH} random characters. The same assignee_id with the same key, from any "
    f"address, gets the same claim with its claim_token again. {SHORT_KEYS}"
)

NOT_COUNTED = ("task.unknown", "task.claimed", "task.paused")
"""Refusals of a claim that count against the larger limit `lost_claim` instead of `claim`: another worker was faster,
so this one goes on looking."""

HOLDING = ("task.unknown", "task.token", "task.state")
SIGNED = ("signature.invalid", "signature.replayed")
MOVING = ("task.unknown", "task.actor", "task.token", "task.proof", "task.state", "task.result")
OFFERING = ("language.not_english", "artifact.unusable", DEADLINE, "task.schema_dear", "quota.task")
REPEATING = (CONFLICT, SHORT, "task.unknown")
"""Refusals of an offer whose Idempotency-Key was used before. `task.unknown`: the contract offered then was removed."""
PUBLISHING = ("task.unknown", "task.publisher", "task.state", *SIGNED)


class TasksApi:
    """Work contracts over HTTP."""

    def __init__(self, tasks: Tasks, limiter: Limiter, signatures: Signatures) -> None:
        self._tasks = tasks
        self._limiter = limiter
        self._signatures = signatures

    @Operation(
        "Offer a work contract",
        hot=True,
        body=NewTask,
        example=examples.OFFER,
        headers=(("Idempotency-Key", REPEATED_OFFER),),
        answers=OfferedTask,
        shows=examples.OFFERED,
        status=201,
        callbacks=(TaskCallback,),
        errors=(*OFFERING, *REPEATING, *SIGNED),
        limit="task",
    )
    async def create(self, request: Request) -> Response:
        async with self._limiter.permit(request, "task") as permit:
            new = await read_json(request, NewTask)
            body = await request.body()
            idempotency = idempotency_key(request, "task", body, name=new.publisher_id, key=new.idempotency_key)
            await permit.hold(repeats=idempotency)
            await permit.charge("task", len(body))
            signed = await self._signatures.of(request, SHOWN_FIELDS)
            with named_in_body(new.idempotency_key):
                task, replayed = await self._tasks.create(new, signed, idempotency, request.client)
            if replayed:
                await permit.replay()
        return created(task, task.url)

    @Operation(
        "List contracts of one status, newest first",
        hot=True,
        query=TaskPageQuery,
        asks="status=offered",
        answers=TaskPage,
        shows=examples.PAGE,
    )
    async def list_tasks(self, request: Request) -> Response:
        query = read_query(request, TaskPageQuery)
        found = self._tasks.page_json(query, request.add_cost)
        return Response(200, await request.while_waiting(query.wait, found))

    @Operation(
        "Read a contract; with wait, wait for its next status",
        query=TaskQuery,
        answers=Task,
        shows=examples.COMPLETED,
        errors=("task.unknown",),
    )
    async def get_task(self, request: Request) -> Response:
        query = read_query(request, TaskQuery)
        return json_response(await request.while_waiting(query.wait, self._tasks.get(request.params["id"], query)))

    # The worker's steps.

    @Operation(
        "Claim an offered contract: the first claimer wins",
        hot=True,
        body=NewClaim,
        headers=(("Idempotency-Key", REPEATED_CLAIM),),
        answers=ClaimedTask,
        shows=examples.CLAIMED,
        errors=("task.unknown", "task.claimed", "task.paused", "task.state", SHORT, *SIGNED),
        limit="claim",
    )
    async def claim(self, request: Request) -> Response:
        self._limiter.precheck(request, "lost_claim")
        async with self._limiter.permit(request, "claim") as permit:
            new = await read_json(request, NewClaim)
            await permit.count()
            await permit.charge("claim", len(await request.body()))
            signed = await self._signatures.of(request, ())
            # Assignee and key alone identify a claim, so the body is left out of the digest.
            task_id = request.params["id"]
            idempotency = idempotency_key(
                request, "claim", b"", name=new.assignee_id, key=new.idempotency_key, entity=task_id
            )
            with named_in_body(new.idempotency_key):
                try:
                    task, replayed = await self._tasks.claim(task_id, new, signed, idempotency)
                except Refused as refused:
                    if refused.code in NOT_COUNTED:
                        await permit.refund()
                        await self._limiter.count(request, "lost_claim")
                    raise
            if replayed:
                await permit.replay()
        return json_response(task)

    @Operation(
        "Extend a claim: its lease starts again",
        body=Holding,
        answers=Task,
        shows=examples.CLAIMED,
        errors=HOLDING,
        limit="lease",
    )
    async def extend(self, request: Request) -> Response:
        return await self._as_holder(request, self._tasks.extend)

    @Operation(
        "Release a claim: the contract is offered again",
        body=Holding,
        answers=Task,
        shows=examples.RELEASED,
        errors=HOLDING,
        limit="lease",
    )
    async def release(self, request: Request) -> Response:
        return await self._as_holder(request, self._tasks.release)

    @Operation(
        "Complete a claimed contract with its result",
        hot=True,
        body=Completion,
        answers=CompletedTask,
        errors=(*HOLDING, "task.completed", "task.result_large", "task.schema_dear"),
        limit="result",
    )
    async def complete(self, request: Request) -> Response:
        """Complete a contract. A refused result counts against the limit, too: the claim stands, so the worker may try
        again, and checking a large result takes some 10 ms each time.
        """
        async with self._limiter.permit(request, "result") as permit:
            completion = await read_json(request, Completion)
            await permit.charge("result", len(await request.body()))
            completed, is_repeated = await self._tasks.complete(request.params["id"], completion, request.add_cost)
            if is_repeated:
                await permit.keep_nothing()
        return json_response(completed)

    @Operation(
        "End an attempt without a result: the contract is offered again, or has failed",
        body=FailedAttempt,
        answers=Task,
        shows=examples.FAILED,
        errors=HOLDING,
        keeps="step",
    )
    async def fail(self, request: Request) -> Response:
        failed = await read_json(request, FailedAttempt)
        async with self._limiter.charged(request, "step", len(await request.body())) as give_back:
            task, is_repeated = await self._tasks.fail(request.params["id"], failed)
            if is_repeated:
                give_back()
        return json_response(task)

    # A step of either side (SPEC 3.1).

    @Operation(
        "Move a contract to its next status, as publisher or assignee",
        hot=True,
        body=Transition,
        answers=Task,
        shows=examples.IN_PROGRESS,
        errors=(*MOVING, CONFLICT, *SIGNED),
        keeps="step",
    )
    async def transition(self, request: Request) -> Response:
        move = await read_json(request, Transition)
        return await self._once(request, "transition", self._tasks.transition, move)

    # The publisher's steps.

    @Operation(
        "Accept a submitted result, as publisher",
        body=Cancellation,
        answers=Task,
        shows=examples.COMPLETED,
        errors=PUBLISHING,
    )
    async def accept(self, request: Request) -> Response:
        return await self._as_publisher(request, self._tasks.accept)

    @Operation(
        "Send a submitted result back to its worker, as publisher",
        body=Rejection,
        answers=Task,
        shows=examples.REJECTED,
        errors=(*PUBLISHING, CONFLICT),
        limit="claim",
    )
    async def reject(self, request: Request) -> Response:
        """Send a submitted result back with a reason. The worker submits again with the same claim_token.

        A request repeated with its Idempotency-Key does not reject a later result. A rejection counts as a claim:
        otherwise a contract could be submitted and rejected endlessly, and everybody would be notified each time.
        """
        async with self._limiter.permit(request, "claim") as permit:
            rejection = await read_json(request, Rejection)
            await permit.count()
            return await self._once(request, "reject", self._tasks.reject, rejection)

    @Operation(
        "Give a failed contract one more attempt, as publisher",
        body=Cancellation,
        answers=Task,
        shows=examples.RELEASED,
        errors=(*PUBLISHING, "task.over", CONFLICT),
        keeps="step",
    )
    async def retry(self, request: Request) -> Response:
        """Give one more attempt. A request repeated with its Idempotency-Key does not give another one."""
        return await self._once(request, "retry", self._tasks.retry, await read_optional_json(request, Cancellation))

    @Operation(
        "Cancel a contract, with the publisher_token or the signing key",
        body=Cancellation,
        answers=Task,
        shows=examples.CANCELED,
        errors=PUBLISHING,
    )
    async def cancel(self, request: Request) -> Response:
        """Cancel a contract. A request signed with the key of the offer needs no body."""
        return await self._as_publisher(request, self._tasks.cancel)

    async def _as_holder(self, request: Request, act: Callable[[str, Holding], Awaitable[Task]]) -> Response:
        """Run a step of the holder of a claim. It is counted, because otherwise it could be repeated endlessly."""
        async with self._limiter.permit(request, "lease") as permit:
            holding = await read_json(request, Holding)
            await permit.count()
            return json_response(await act(request.params["id"], holding))

    async def _once(self, request: Request, what: str, act: RepeatableStep[T], said: T) -> Response:
        """Run a step that takes effect once for each Idempotency-Key. `act` also says whether it already has."""
        signed = await self._signatures.of(request, ())
        if isinstance(said, Cancellation):
            said.publisher_token = _publisher_token(request, said, signed)
        task_id, body = request.params["id"], await request.body()
        idempotency = idempotency_key(request, f"{what}:{task_id}", body)
        async with self._limiter.charged(request, "step", len(body)) as give_back:
            task, replayed = await act(task_id, said, signed, idempotency)
            if replayed:
                mark_replayed(request)
                give_back()
        return json_response(task)

    async def _as_publisher(
        self, request: Request, act: Callable[[str, Cancellation, Signed], Awaitable[Task]]
    ) -> Response:
        """Run a step of the publisher that is idempotent without an Idempotency-Key."""
        proof, signed = await read_optional_json(request, Cancellation), await self._signatures.of(request, ())
        proof.publisher_token = _publisher_token(request, proof, signed)
        return json_response(await act(request.params["id"], proof, signed))

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of SPEC 4.3, and those of DESIGN 8 that SPEC does not name."""
        return routes_of(
            "tasks",
            ("GET", "/api/v1/tasks", self.list_tasks),
            ("GET", "/api/v1/tasks/{id}", self.get_task),
            ("POST", "/api/v1/tasks", self.create),
            ("POST", "/api/v1/tasks/{id}/transition", self.transition),
            ("POST", "/api/v1/tasks/{id}/cancel", self.cancel),
            ("POST", "/api/v1/tasks/{id}/claim", self.claim),
            ("POST", "/api/v1/tasks/{id}/complete", self.complete),
            ("POST", "/api/v1/tasks/{id}/fail", self.fail),
            ("POST", "/api/v1/tasks/{id}/retry", self.retry),
            ("POST", "/api/v1/tasks/{id}/accept", self.accept),
            ("POST", "/api/v1/tasks/{id}/reject", self.reject),
            ("POST", "/api/v1/tasks/{id}/extend", self.extend),
            ("POST", "/api/v1/tasks/{id}/release", self.release),
        )


def _publisher_token(request: Request, proof: Cancellation, signed: Signed) -> str | None:
    """Return the token in the body; without one, if the request is not signed, the bearer token (NETWORK 4)."""
    return proof.publisher_token if proof.publisher_token is not None or signed.signer else bearer_of(request)


@contextmanager
def named_in_body(key: str | None) -> Generator[None]:
    """Add to a refusal where in the body the refused field is: the Idempotency-Key, if given there, or the deadline."""
    try:
        yield
    except Refused as refused:
        if key is not None and refused.code in {CONFLICT, SHORT}:
            refused.facts["loc"] = ("body", "idempotency_key")
        if refused.code == DEADLINE:
            refused.facts["loc"] = ("body", "deadline")
        raise
