"""Work contracts: offered by a publisher, claimed by one worker, completed with a result (SPEC 3.1, 4.3).

This module judges what a request says and what its tokens prove. Whether the contract allows a step at that moment is
decided by the scripts behind `store`.
"""

import secrets
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from node.callbacks.target_check import TargetCheck
from node.common.own_terms import NO_TERMS, TextIndex
from node.common.refusal import Invalid, Refused
from node.common.timestamps import timestamp
from node.common.tokens import Tokens
from node.common.unreadable import show_each
from node.config import Settings
from node.sign.signed import Signed
from node.store import ids
from node.store.errors import StoreUnavailable
from node.store.idempotency import IdempotencyKey
from node.tasks.lapse import JUDGED
from node.tasks.listing import TaskListing
from node.tasks.model import (
    Cancellation,
    ClaimedTask,
    CompletedTask,
    Completion,
    FailedAttempt,
    FailureReason,
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
from node.tasks.offer_check import ArtifactStatuses, OfferCheck
from node.tasks.offers.feed import OfferFeed
from node.tasks.offers.list import AddCost
from node.tasks.proofs import Actor, Proofs
from node.tasks.result_schema import require_shape
from node.tasks.results import is_same_result, require_result
from node.tasks.steps import Claim, UncheckedResult
from node.tasks.store import TaskStore
from node.tasks.view import CHANGING, LISTED, ChangeLog, StoredTask, elapsed, known, task_of
from node.text.lines import require_line, require_name, require_text
from node.text.readable import readable

SWEEP_LIMIT = 100
"""Most contracts that one sweep brings up to date in each partition; the next sweep takes the rest."""


class Tasks:
    """The service behind /api/v1/tasks. Every method raises StoreUnavailable."""

    def __init__(
        self,
        store: TaskStore,
        settings: Settings,
        tokens: Tokens,
        targets: TargetCheck,
        artifact_statuses: ArtifactStatuses,
        feed: OfferFeed,
        index: TextIndex,
    ) -> None:
        """`index`: the search index for new offers."""
        self._store = store
        self._index = index
        self._proofs = Proofs(store, tokens)
        self._offer_check = OfferCheck(targets, artifact_statuses)
        self.base = f"{settings.public_url}/api/v1/tasks/"
        """URL of a contract, without its id."""
        self._listing = TaskListing(feed, store, self.base)

    async def create(
        self, new: NewTask, signed: Signed, idempotency: IdempotencyKey | None, client: str
    ) -> tuple[OfferedTask, bool]:
        """Offer a contract. Returns it, and whether the same request had offered it before.

        `client`: the client on whose behalf the contract's callbacks are sent.

        Raises Invalid, Refused `language.not_english`, `artifact.unusable`, `idempotency.conflict`,
        `idempotency.short`, `signature.replayed`, `task.deadline`, `task.schema_dear`; `task.unknown` if the
        contract offered before was removed.
        """
        try:
            fields = await self._offer_check.fields(new, client)
        except (Invalid, Refused):
            # The artifacts or the host that it names may be gone by now, but the same request gets the same answer.
            if idempotency and (before := await self._store.offered_before(idempotency)):
                return self._offer_again(*before, idempotency), True
            raise
        fields |= signed.fields
        if signed.signer or new.require_proof:
            fields["bound"] = "1"
        deadline = round(new.deadline.timestamp() * 1000) if new.deadline else None
        description = str(fields.get("description", ""))
        own = self._index.own_terms(new.title, description)
        task_id, row, replayed = await self._store.create(idempotency, signed.replay_id, fields, deadline, client, own)
        if replayed and idempotency:
            return self._offer_again(task_id, row, idempotency), True
        if own is NO_TERMS:
            with suppress(StoreUnavailable):
                await self._index.note(task_id, new.title, description)
        await self._list(task_id, row)
        return self._offer(task_id, row), False

    def _offer_again(self, task_id: str, row: StoredTask, idempotency: IdempotencyKey) -> OfferedTask:
        """Return the answer to a repeated offer, whatever its status is now. Raises Refused `idempotency.short`."""
        idempotency.check_token(row.created_at, row.now)
        return self._offer(task_id, row)

    def _offer(self, task_id: str, row: StoredTask) -> OfferedTask:
        token = self._proofs.publisher_token(task_id)
        return OfferedTask(**msgspec.structs.asdict(self._task(task_id, row)), publisher_token=token)

    # Reading.

    async def get(self, task_id: str, query: TaskQuery | None = None, *, with_result: bool = True) -> Task:
        """Return a contract, after waiting for another status if the query asks for that.

        Without `with_result`, the result is not read and shows as null. Raises Refused `task.unknown`.
        """
        query = query or TaskQuery()
        ids.require_id(task_id, "task.unknown")
        row = await self._store.wait(
            task_id,
            query.wait,
            query.status,
            () if with_result else (*LISTED, b"attempts", b"result_schema"),
        )
        return self._task(task_id, known(row))

    async def record(self, task_id: str) -> Task:
        """Return a contract as lists show it. Raises Refused `task.unknown`."""
        ids.require_id(task_id, "task.unknown")
        return self._listing.record(task_id, known(await self._store.read(task_id, LISTED)))

    async def records(self, task_ids: Sequence[str]) -> list[Task | None]:
        """Return a contract for each id, as lists show it; None if there is none, or it cannot be read."""
        rows = await self._store.readable(task_ids, LISTED)
        contracts = ((task_id, row) for task_id, row in rows.items() if row.is_contract)
        found = show_each(contracts, self._listing.record)
        return [found.get(task_id) for task_id in task_ids]

    async def on_offer(self, task_ids: Sequence[str]) -> dict[str, StoredTask]:
        """Return the contracts that are offered and can be read, without their texts.

        Raises StoreUnavailable if no server can be reached.
        """
        rows, _ = await self._store.listed_reachable(task_ids, CHANGING)
        return {task_id: row for task_id, row in rows.items() if row.is_in("offered")}

    async def page(self, query: TaskPageQuery) -> TaskPage:
        """Return a page of contracts of one status, without their results."""
        return await self._listing.page(query)

    async def page_json(self, query: TaskPageQuery, add_cost: AddCost) -> bytes:
        """Return `page` as JSON (`TaskListing.page_json`). Rows that have not changed are not encoded again."""
        return await self._listing.page_json(query, add_cost)

    async def changes(self, task_id: str) -> ChangeLog:
        """Return the last changes of a contract; nothing else of it is read. Raises Refused `task.unknown`."""
        ids.require_id(task_id, "task.unknown")
        return ChangeLog.of(known(await self._store.read(task_id, (b"kind", b"changes"))).fields)

    async def require_known(self, task_id: str) -> None:
        """Raise Refused `task.unknown` if there is no such contract."""
        await self._proofs.require_known(task_id)

    # The worker's steps.

    async def claim(
        self, task_id: str, new: NewClaim, signed: Signed, idempotency: IdempotencyKey | None
    ) -> tuple[ClaimedTask, bool]:
        """Claim a contract. Returns it, and whether the same request had claimed it before.

        Raises Invalid, Refused `task.unknown`, `task.claimed`, `task.paused`, `task.state`, `idempotency.short`,
        `signature.replayed`.
        """
        ids.require_id(task_id, "task.unknown")
        require_text("assignee_id", new.assignee_id)
        require_name("assignee_id", new.assignee_id)
        request = idempotency.scope if idempotency else secrets.token_hex(16)
        return await self.claim_as(task_id, new.assignee_id, request, idempotency, signed.replay_id)

    async def claim_as(
        self, task_id: str, assignee: str, request: str, idempotency: IdempotencyKey | None, replay_id: str = ""
    ) -> tuple[ClaimedTask, bool]:
        """Claim a contract as `claim` does; `request` is the id of the request."""
        row, replayed = await self._store.claim(task_id, assignee, request, replay_id)
        if replayed and idempotency:
            idempotency.check_token(int(row.fields[b"claimed_at"]), row.now)
        task = await self._changed(task_id, row)
        token = self._proofs.claim_token(task_id, Claim(str(task.attempt), request))
        return ClaimedTask(**msgspec.structs.asdict(task), claim_token=token), replayed

    async def was_claimed_by(self, task_id: str, request: str) -> bool:
        """Return whether the last claim of a contract was made by this request."""
        return (await self._store.read(task_id, JUDGED)).fields.get(b"claim") == request.encode()

    async def extend(self, task_id: str, holding: Holding) -> Task:
        """Renew the lease of a claim. Raises Refused `task.unknown`, `task.token`, `task.state`."""
        claim = await self._proofs.claim_of(task_id, holding.claim_token)
        return self._task(task_id, await self._store.extend(task_id, claim))

    async def release(self, task_id: str, holding: Holding) -> Task:
        """Release a claim. Raises Refused `task.unknown`, `task.token`, `task.state`."""
        claim = await self._proofs.claim_of(task_id, holding.claim_token)
        return await self._changed(task_id, await self._store.release(task_id, claim))

    async def complete(self, task_id: str, completion: Completion, add_cost: AddCost) -> tuple[CompletedTask, bool]:
        """Complete a contract with its result, which is kept byte for byte, or submit the result for review.

        The same JSON again gets the same answer. The second value says whether the result was received in an earlier
        millisecond. If the stored result has to be compared, `add_cost` is told its size in bytes.

        Raises Invalid, Refused `task.unknown`, `task.token`, `task.state`, `task.completed`, `task.result_large`,
        `task.schema_dear`.
        """
        ids.require_id(task_id, "task.unknown")
        result = bytes(completion.result_payload)
        require_result(result)
        claim = await self._proofs.claim_of(task_id, completion.claim_token)
        try:
            row = await self._complete(task_id, claim, result)
        except Refused as refused:
            # The script compares bytes only. The stored result may be the same JSON in other bytes.
            status = refused.facts.get("status")
            if (refused.code, status) not in (("task.completed", "completed"), ("task.state", "submitted")):
                raise
            row = known(await self._store.read(task_id))
            add_cost(len(row.result))
            if row.status not in ("submitted", "completed") or not is_same_result(row.result, result):
                raise
        await self._list(task_id, row)
        claimed, handed_in = int(row.fields[b"claimed_at"]), row.changed_at
        if row.status == "submitted":
            return CompletedTask(True, task_id, "submitted", elapsed(claimed, handed_in), None), handed_in < row.now
        completed = CompletedTask(True, task_id, "completed", elapsed(claimed, handed_in), timestamp(handed_in))
        return completed, handed_in < row.now

    async def fail(self, task_id: str, failed: FailedAttempt) -> tuple[Task, bool]:
        """End an attempt without a result. The contract is then offered again, or has failed.

        The second value says whether the attempt was ended in an earlier millisecond.

        Raises Refused `task.unknown`, `task.token`, `task.state`.
        """
        ids.require_id(task_id, "task.unknown")
        require_text("code", failed.code)
        require_line("code", failed.code)
        claim = await self._proofs.claim_of(task_id, failed.claim_token)
        reason = msgspec.json.encode(FailureReason(failed.code, readable(failed.message), failed.retryable))
        row = await self._store.fail(task_id, claim, reason, retryable=failed.retryable)
        return await self._changed(task_id, row), row.changed_at < row.now

    # A step of either side (SPEC 3.1).

    async def transition(
        self, task_id: str, move: Transition, signed: Signed, idempotency: IdempotencyKey | None
    ) -> tuple[Task, bool]:
        """Move a contract to its next status (SPEC 3.1). Returns it, and whether the same request had moved it before.

        Raises Invalid, Refused `task.unknown`, `task.actor`, `task.token`, `task.proof`, `task.state`, `task.result`,
        `idempotency.conflict`, `signature.replayed`.
        """
        actor = await self._proofs.actor(task_id, move, signed)
        row, replayed = await self._store.transition(task_id, actor, move.status or "", idempotency)
        return await self._changed(task_id, row), replayed

    # The publisher's steps.

    async def accept(self, task_id: str, proof: Cancellation, signed: Signed) -> Task:
        """Accept a submitted result, if the request proves that it comes from the contract's publisher.

        Raises Refused `task.unknown`, `task.publisher`, `task.state`, `signature.replayed`.
        """
        actor = await self._proofs.publisher(task_id, proof, signed)
        row, _ = await self._store.review(task_id, actor, "", None)
        return await self._changed(task_id, row)

    async def reject(
        self, task_id: str, rejection: Rejection, signed: Signed, idempotency: IdempotencyKey | None
    ) -> tuple[Task, bool]:
        """Send a submitted result back to its worker, who submits again with the same claim_token.

        The second value says whether the same request had done so before. A repeated request rejects no later result.

        Raises Invalid, Refused `task.unknown`, `task.publisher`, `task.state`, `idempotency.conflict`,
        `signature.replayed`.
        """
        reason = readable(rejection.reason)
        require_text("reason", reason)
        actor = await self._proofs.publisher(task_id, rejection, signed)
        row, replayed = await self._store.review(task_id, actor, reason, idempotency)
        return await self._changed(task_id, row), replayed

    async def retry(
        self, task_id: str, proof: Cancellation, signed: Signed, idempotency: IdempotencyKey | None
    ) -> tuple[Task, bool]:
        """Give a contract that failed one more attempt, if the request proves that it comes from the publisher.

        The second value says whether the same request had done so before. A repeated request gives no other attempt.

        Raises Refused `task.unknown`, `task.publisher`, `task.state`, `task.over`, `idempotency.conflict`,
        `signature.replayed`.
        """
        actor = await self._proofs.publisher(task_id, proof, signed)
        row, replayed = await self._store.retry(task_id, actor, idempotency)
        return await self._changed(task_id, row), replayed

    async def cancel(self, task_id: str, proof: Cancellation, signed: Signed) -> Task:
        """Cancel a contract, if the request proves that it comes from the publisher.

        Raises Refused `task.unknown`, `task.publisher`, `task.state`, `signature.replayed`.
        """
        actor = await self._proofs.publisher(task_id, proof, signed)
        return await self._changed(task_id, await self._store.cancel(task_id, actor))

    async def require_publisher(self, task_id: str, publisher_token: str | None, signer: str) -> None:
        """Raise unless the request shows the publisher_token or is signed with the key of the offer.

        Raises Refused `task.unknown`, `callbacks.proof` if it has neither a token nor a signature, `task.publisher`.
        """
        await self._proofs.require_publisher(task_id, publisher_token, signer)

    # The operator's.

    async def cancel_as_operator(self, task_id: str) -> Task:
        """Cancel a contract for the operator, without proof. Raises Refused `task.unknown`, `task.state`."""
        ids.require_id(task_id, "task.unknown")
        return await self._changed(task_id, await self._store.cancel(task_id, Actor(has_publisher_token=True)))

    async def readable(self, task_id: str) -> Task | None:
        """Return a contract, or None if its record is damaged. Raises Refused `task.unknown`."""
        ids.require_id(task_id, "task.unknown")
        found = await self._store.readable([task_id])
        return show_each(((task_id, known(row)) for task_id, row in found.items()), self._task).get(task_id)

    async def purge(self, task_id: str) -> Task | None:
        """Remove a contract for the operator. Returns what `readable` does. Raises Refused `task.unknown`."""
        task = await self.readable(task_id)
        if not await self._store.forget({task_id: ""}):
            raise Refused("task.unknown")
        await self._list(task_id, StoredTask(0, {}))
        return task

    # The background worker's.

    async def project(self, *task_ids: str) -> None:
        """Put contracts into the lists of their statuses, as the worker does after every task event.

        An id that is not a contract is taken off all lists. A contract that cannot be read stays where it is.
        """
        await self._store.project(await self._store.read_for_lists(task_ids))

    async def sweep(self) -> int:
        """Record what time alone has changed about contracts that are due. Returns how many were due.

        The worker sweeps all the time. Readers and steps judge contracts by the clock anyway, so a sweep only brings
        events, callbacks and lists up to date.
        """
        due = await self._store.due(SWEEP_LIMIT)
        await self.project(*await self._store.lapse(due))
        return len(due)

    async def _complete(self, task_id: str, claim: Claim, result: bytes) -> StoredTask:
        """Complete a contract. If it has a result schema, check the result against the schema first."""
        try:
            return await self._store.complete(task_id, claim, result)
        except UncheckedResult as unchecked:
            require_shape(unchecked.schema, result)
            return await self._store.complete(task_id, claim, result, is_checked=True)

    async def _changed(self, task_id: str, row: StoredTask) -> Task:
        """Put a contract into its list after a step, and return it."""
        await self._list(task_id, row)
        return self._task(task_id, row)

    async def _list(self, task_id: str, row: StoredTask) -> None:
        """Put a contract into the list of its status. If Redis cannot be reached, the worker does so later."""
        with suppress(StoreUnavailable):
            await self._store.project_soon(task_id, row)

    def _task(self, task_id: str, row: StoredTask) -> Task:
        return task_of(task_id, self.base + task_id, row)
