"""How a call to Redis can fail: nothing was written, the outcome is unknown, or the same call would always fail."""

from collections.abc import Generator
from contextlib import contextmanager


class StoreUnavailable(Exception):
    """Redis did not accept the call: nothing was written, and the same call may succeed later."""

    def __init__(self, reason: str, retry_after: float = 1.0) -> None:
        super().__init__(reason)
        self.retry_after = retry_after
        """Seconds after which a retry makes sense."""


class StoreBusy(StoreUnavailable):
    """This process already has its maximum number of calls under way. Nothing was sent to Redis."""


class OutOfMemory(StoreUnavailable):
    """The memory of Redis is full, and the call needs memory. Reads and calls that free memory still work."""


class OutcomeUnknown(StoreUnavailable):
    """The call was sent and no reply came: it may or may not have been carried out.

    The store never retries such a call. A feature may, if the call carries a request id that makes its script
    idempotent (DESIGN 5).
    """


@contextmanager
def after_write(done: str) -> Generator[None]:
    """Guard a block that follows a write in the same request, so that the client is not told that nothing was written.

    `done` says what was written. Raises OutcomeUnknown in place of any StoreUnavailable.
    """
    try:
        yield
    except StoreUnavailable as failure:
        raise OutcomeUnknown(f"{done}; what follows failed: {failure}") from failure


class CommandFailed(Exception):
    """Redis refuses the call for good: the user lacks the right, the Redis version is too old, or the node has a bug
    (a wrong type, wrong arguments, a broken script).
    """


REFUSALS = {
    "OOM": ("Redis is out of memory", 10.0),
    "LOADING": ("Redis is loading its data", 1.0),
    "BUSY": ("Redis is busy with a long script", 1.0),
    "MISCONF": ("Redis cannot write to its disk", 10.0),
    "NOREPLICAS": ("Redis has fewer replicas than it needs to accept writes", 5.0),
    "READONLY": ("Redis has become a replica", 1.0),
    "MASTERDOWN": ("Redis has become a replica and lost its primary", 1.0),
    "CLUSTERDOWN": ("a part of the Redis cluster has no primary", 1.0),
    "NOSCRIPT": ("Redis has lost a script and may lose it again", 1.0),
    "TRYAGAIN": ("a part of the Redis cluster is moving", 1.0),
}
"""Error codes which mean that Redis has not begun the command, each with the reason and the seconds to wait."""


def judge(error: str, call: str) -> StoreUnavailable | CommandFailed:
    """Return the exception that an error reply of Redis means for the caller of `call`."""
    code = error.partition(" ")[0]
    refusal = REFUSALS.get(code)
    if refusal is None:
        return CommandFailed(f"{call}: {error}")
    return (OutOfMemory if code == "OOM" else StoreUnavailable)(*refusal)
