"""The scripts of contracts and offers, each one atomic step, and the decoding of their replies about a contract."""

# The parameters have the names in the headers of the scripts.
# ruff: noqa: A002

import math

import msgspec

from node.common.own_terms import OwnTerms
from node.common.refusal import Refused
from node.store import RedisReply, keys
from node.store.decoding import fields_of
from node.store.idempotency import Once
from node.store.replay import FirstUse
from node.store.steps import Key, Rest, step
from node.tasks.view import StoredTask


class ContractKeys(msgspec.Struct, frozen=True, gc=False):
    """Arguments of every step on a contract: its keys and its id."""

    task: Key
    leases: Key
    events: Key
    id: str

    @classmethod
    def of(cls, task_id: str, task: Key | None = None) -> "ContractKeys":
        """Return the arguments for the contract with this id, or for its copy under the key `task`."""
        return cls(task or keys.task(task_id), keys.leases_of(task_id), keys.events_of(task_id), task_id)


class Claim(msgspec.Struct, frozen=True):
    """One claim of a contract: its number, and the id of the request that made it."""

    attempt: str
    request: str


NO_CLAIM = Claim("", "")
"""The claim passed to a step if no claim_token was shown."""


@step
def task_create(
    *,
    contract: ContractKeys,
    once: Once,
    first_use: FirstUse,
    doc: Key,
    deadline: int | str,
    client: str,
    own: OwnTerms,
    fields: Rest,
) -> None:
    """Offer a contract."""


@step
def task_claim(*, contract: ContractKeys, first_use: FirstUse, assignee: str, request: str) -> None:
    """Claim a contract for the first worker that asks."""


@step
def task_transition(
    *,
    contract: ContractKeys,
    once: Once,
    first_use: FirstUse,
    actor: str,
    target: str,
    proven: int,
    signer: str,
    claim: Claim,
) -> None:
    """Move a contract to its next status."""


@step
def task_complete(*, contract: ContractKeys, claim: Claim, result: bytes, checked: int) -> None:
    """Complete a contract with a result, or submit the result."""


@step
def task_fail(*, contract: ContractKeys, claim: Claim, reason: bytes, retryable: int) -> None:
    """End the present attempt at a contract without a result."""


@step
def task_retry(*, contract: ContractKeys, once: Once, first_use: FirstUse, proven: int, signer: str) -> None:
    """Give a contract that failed one more attempt."""


@step
def task_review(
    *, contract: ContractKeys, once: Once, first_use: FirstUse, proven: int, signer: str, reason: str
) -> None:
    """Accept or reject a submitted result."""


@step
def task_cancel(*, contract: ContractKeys, first_use: FirstUse, proven: int, signer: str) -> None:
    """Cancel a contract."""


@step
def task_extend(*, contract: ContractKeys, claim: Claim) -> None:
    """Renew the lease of a claim."""


@step
def task_release(*, contract: ContractKeys, claim: Claim) -> None:
    """Release a claim."""


@step
def task_lapse(*, contract: ContractKeys, again: int) -> None:
    """Record what time alone has changed about a contract."""


@step
def task_read(*, task: Key, names: Rest) -> None:
    """Read fields of a contract, or all."""


@step
def task_compact(*, task: Key, packed: Key, fields: int, content: bytes) -> None:
    """Replace the hash of a contract by one compressed string."""


@step
def task_unpack(*, copy: Key, ttl: int, fields: Rest) -> None:
    """Copy the fields by which a step judges a compacted contract."""


@step
def task_forget(*, contract: ContractKeys, packed: Key, judged: str) -> None:
    """Remove a contract."""


@step
def task_intend(*, intent: Key, before: str, id: str, ttl: int) -> None:
    """Record which contract a request is about to claim."""


@step
def offer_announce(*, offers: Key, known: Key, id: str, at: float, keep: int, publisher: bytes, skills: bytes) -> None:
    """Announce an offer, once, to all who wait for work."""


class UncheckedResult(Exception):
    """The result must fit `schema`, and has not been checked yet."""

    def __init__(self, schema: bytes) -> None:
        super().__init__()
        self.schema = schema


def row_of(reply: RedisReply, asked_at: float = math.inf) -> tuple[StoredTask, bool]:
    """Return the contract after a step that was sent at `asked_at` (monotonic seconds), and whether the step was done
    before. Raises Refused, UncheckedResult.
    """
    match reply:
        case [b"refused", bytes(code), bytes(status)]:
            raise Refused(code.decode(), status=status.decode())
        case [b"refused", bytes(code), bytes(status), int(wait_ms)]:
            raise Refused(code.decode(), retry_after=wait_ms / 1000, status=status.decode())
        case [b"unchecked", int(), [_, bytes(schema)]]:
            raise UncheckedResult(schema)
        case [kind, int(now), fields]:
            return StoredTask(now, fields_of(fields), asked_at), kind == b"replayed"
        case _:
            raise TypeError(f"a step on a contract answered {reply!r}")
