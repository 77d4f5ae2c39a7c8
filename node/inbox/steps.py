"""The scripts `lua/inbox_*.lua`, each an atomic step on an inbox. The stores decode their replies."""

# The parameters are named as in the headers of the scripts.
# ruff: noqa: A002

import msgspec

from node.config import Limit
from node.store import ids, keys
from node.store.idempotency import Once
from node.store.replay import FirstUse
from node.store.steps import Key, Rest, step


class MessageKeys(msgspec.Struct, frozen=True, gc=False):
    """What each step on a message takes: keys of the message, its inbox and its partition, the address, and the id."""

    ends: Key
    receipt: Key
    push_ends: Key
    events: Key
    address: str
    id: str

    @classmethod
    def of(cls, address: str, message_id: str) -> "MessageKeys":
        partition = ids.partition_of(address)
        ends, receipt = keys.inbox_ends(address), keys.inbox_receipt(address, message_id)
        return cls(ends, receipt, keys.inbox_push_ends(partition), keys.events(partition), address, message_id)


@step
def inbox_open(
    *,
    inbox: Key,
    last_seq: Key,
    once: Once,
    first_use: FirstUse,
    proof: str,
    address: str,
    epoch: str,
    rotate: int,
    life: int,
    kept: int,
    step: int,
    client: str,
    place: str,
    renews: int,
    fields: Rest,
) -> None:
    """Open an inbox, or renew it."""


@step
def inbox_show(*, inbox: Key, ends: Key, names: Rest) -> None:
    """Read fields of an inbox, and how much it holds."""


@step
def inbox_prolong(*, inbox: Key, last_seq: Key, life: int, kept: int, step: int, lasts: int) -> None:
    """Prolong the life of an inbox, because its owner was there."""


@step
def inbox_close(
    *,
    inbox: Key,
    last_seq: Key,
    messages: Key,
    ends: Key,
    push_ends: Key,
    first_use: FirstUse,
    agents: Key,
    due: Key,
    events: Key,
    proof: str,
    kept: int,
    address: str,
) -> None:
    """Close an inbox."""


@step
def inbox_send(
    *,
    message: MessageKeys,
    inbox: Key,
    last_seq: Key,
    messages: Key,
    rate: Key,
    once: Once,
    first_use: FirstUse,
    task: Key,
    context: Key,
    asked: Key,
    pushes: Key,
    limit: Limit,
    sender: str,
    signer: str,
    lasts: int,
    usual: int,
    keep: int,
    most: int,
    most_bytes: int,
    most_each: int,
    text: bytes,
    task_id: str,
    context_id: str,
    said: bytes,
    most_tasks: int,
) -> None:
    """Put a message into an inbox."""


@step
def inbox_read(*, inbox: Key, last_seq: Key, messages: Key, ends: Key, proof: str, since: int, limit: int) -> None:
    """Read unsettled messages."""


@step
def inbox_mark(*, message: MessageKeys) -> None:
    """Record that a message was read."""


@step
def inbox_settle(
    *, message: MessageKeys, inbox: Key, messages: Key, proof: str, status: str, digest: str, keep: int, fields: Rest
) -> None:
    """Settle a message."""


@step
def inbox_list_through(*, inbox: Key, ends: Key, proof: str, through: int) -> None:
    """List the unsettled messages up to a number."""


@step
def inbox_withdraw(*, message: MessageKeys, inbox: Key, messages: Key, first: Key, keep: int) -> None:
    """Withdraw a message."""


@step
def inbox_receipt(*, inbox: Key, receipt: Key, names: Rest) -> None:
    """Read the receipt of a message."""


@step
def inbox_push_set(
    *,
    inbox: Key,
    pushes: Key,
    task: Key,
    latest: Key,
    push_ends: Key,
    events: Key,
    address: str,
    id: str,
    name: str,
    config: bytes,
    most: int,
) -> None:
    """Notify a receiver of the changes of a task."""


@step
def inbox_push_read(*, pushes: Key, task: Key, latest: Key, id: str) -> None:
    """Read who is notified of the changes of a task."""


@step
def inbox_push_expire(*, push_ends: Key, events: Key, limit: int) -> None:
    """Announce messages that have expired."""
