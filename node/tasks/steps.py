"""The scripts of contracts and offers, each one atomic step, and what those that act on a contract answer."""

# The parameters have the names that the scripts' headers give them.
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
    """What each step on a contract takes: its keys, and its id."""

    task: Key
    leases: Key
    events: Key
    id: str

    @classmethod
    def of(cls, task_id: str, task: Key | None = None) -> "ContractKeys":
        """For the contract of that id, or for the copy of it in `task`."""
        return cls(task or keys.task(task_id), keys.leases_of(task_id), keys.events_of(task_id), task_id)


class Claim(msgspec.Struct, frozen=True):
    """One claim of a contract: its number, and the id of the request that made it."""

    attempt: str
    request: str


NO_CLAIM = Claim("", "")
"""Stands for the claim in a step for which none was shown."""


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
    """Claim it for the first who asks."""


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
    """Move it to its next status."""


@step
def task_complete(*, contract: ContractKeys, claim: Claim, result: bytes, checked: int) -> None:
    """Complete it with a result, or submit that."""


@step
def task_fail(*, contract: ContractKeys, claim: Claim, reason: bytes, retryable: int) -> None:
    """End its attempt without a result."""


@step
def task_retry(*, contract: ContractKeys, once: Once, first_use: FirstUse, proven: int, signer: str) -> None:
    """Give it one more attempt."""


@step
def task_review(
    *, contract: ContractKeys, once: Once, first_use: FirstUse, proven: int, signer: str, reason: str
) -> None:
    """Accept or reject its result."""


@step
def task_cancel(*, contract: ContractKeys, first_use: FirstUse, proven: int, signer: str) -> None:
    """Cancel it."""


@step
def task_extend(*, contract: ContractKeys, claim: Claim) -> None:
    """Start its lease again."""


@step
def task_release(*, contract: ContractKeys, claim: Claim) -> None:
    """Release its claim."""


@step
def task_lapse(*, contract: ContractKeys, again: int) -> None:
    """Record what time has changed."""


@step
def task_read(*, task: Key, names: Rest) -> None:
    """Read fields of it."""


@step
def task_compact(*, task: Key, packed: Key, fields: int, content: bytes) -> None:
    """Put one string in its place."""


@step
def task_unpack(*, copy: Key, ttl: int, fields: Rest) -> None:
    """Copy the fields by which a step judges a compacted one."""


@step
def task_forget(*, contract: ContractKeys, packed: Key, judged: str) -> None:
    """Remove it."""


@step
def task_intend(*, intent: Key, before: str, id: str, ttl: int) -> None:
    """Record which contract a request is about to claim."""


@step
def offer_announce(*, offers: Key, known: Key, id: str, at: float, keep: int, publisher: bytes, skills: bytes) -> None:
    """Announce an offer, once, to all who wait for work."""


class UncheckedResult(Exception):
    """The result must fit a schema, and has not been checked yet."""

    def __init__(self, schema: bytes) -> None:
        super().__init__()
        self.schema = schema


def row_of(reply: RedisReply, asked_at: float = math.inf) -> tuple[StoredTask, bool]:
    """The contract after a step sent at `asked_at` (monotonic seconds); whether it was done before. Raises Refused."""
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
