"""The scripts `lua/inbox_*.lua`, each one atomic step on an inbox; what they answer is read in the stores."""

# The parameters have the words of the scripts' headers.
# ruff: noqa: A002

from node.store.steps import Key, Rest, step


@step
def inbox_open(
    *,
    inbox: Key,
    last_seq: Key,
    idem: Key,
    replay: Key,
    digest: str,
    idem_ttl: int,
    replay_ttl: int,
    proof: str,
    address: str,
    epoch: str,
    rotate: int,
    life: int,
    kept: int,
    step: int,
    client: str,
    place: str,
    fields: Rest,
) -> None:
    """Open an inbox, or renew it."""


@step
def inbox_show(*, inbox: Key, ends: Key, names: Rest) -> None:
    """Read what it shows of itself."""


@step
def inbox_stay(*, inbox: Key, last_seq: Key, life: int, kept: int, step: int) -> None:
    """Let it stay, because its owner was there."""


@step
def inbox_close(
    *,
    inbox: Key,
    last_seq: Key,
    messages: Key,
    ends: Key,
    push_ends: Key,
    replay: Key,
    agents: Key,
    due: Key,
    events: Key,
    proof: str,
    replay_ttl: int,
    kept: int,
    address: str,
) -> None:
    """Close it."""


@step
def inbox_send(
    *,
    inbox: Key,
    last_seq: Key,
    messages: Key,
    ends: Key,
    receipt: Key,
    rate: Key,
    idem: Key,
    replay: Key,
    events: Key,
    task: Key,
    asked: Key,
    context: Key,
    pushes: Key,
    push_ends: Key,
    count: int,
    window: int,
    digest: str,
    idem_ttl: int,
    replay_ttl: int,
    address: str,
    id: str,
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
    """Put a message into it."""


@step
def inbox_read(*, inbox: Key, last_seq: Key, messages: Key, ends: Key, proof: str, since: int, limit: int) -> None:
    """Read its messages."""


@step
def inbox_mark(*, ends: Key, receipt: Key, push_ends: Key, events: Key, address: str, id: str) -> None:
    """Note that a message was read."""


@step
def inbox_settle(
    *,
    inbox: Key,
    messages: Key,
    ends: Key,
    receipt: Key,
    push_ends: Key,
    events: Key,
    proof: str,
    status: str,
    digest: str,
    keep: int,
    address: str,
    id: str,
    fields: Rest,
) -> None:
    """Settle a message."""


@step
def inbox_through(*, inbox: Key, ends: Key, proof: str, through: int) -> None:
    """List the messages up to a number."""


@step
def inbox_withdraw(
    *,
    inbox: Key,
    messages: Key,
    ends: Key,
    receipt: Key,
    push_ends: Key,
    events: Key,
    keep: int,
    address: str,
    id: str,
) -> None:
    """Take a message back."""


@step
def inbox_receipt(*, inbox: Key, receipt: Key, names: Rest) -> None:
    """Read what became of a message."""


@step
def inbox_push_set(
    *,
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
    held: int,
) -> None:
    """Have the changes of a task told to a receiver."""


@step
def inbox_push_expire(*, push_ends: Key, events: Key, limit: int) -> None:
    """Tell that messages have expired."""
