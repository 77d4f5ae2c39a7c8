"""What the steps on contracts answer, as values or exceptions."""

import math

from node.common.refusal import Refused
from node.store import RedisReply
from node.store.decoding import fields_of
from node.tasks.view import StoredTask


class UncheckedResult(Exception):
    """The result must fit a schema, and has not been checked yet."""

    def __init__(self, schema: bytes) -> None:
        super().__init__()
        self.schema = schema


def known(row: StoredTask) -> StoredTask:
    """The contract. Raises Refused `task.unknown` if there is none."""
    if not row.is_contract:
        raise Refused("task.unknown")
    return row


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
