"""Bounds the total size of the answers to one POST: a batch of short requests can ask for very long answers."""

from node.mcp.json_rpc import TOO_LARGE, RpcError, error_reply

BATCH_BYTES = 1024 * 1024
"""Maximum size of all answers to one batch, in bytes."""

STREAM_BYTES = 192 * 1024
"""Maximum size of all answers to one POST that go to an event stream, in bytes. Redis pub/sub carries them to the
process that holds the stream. If more than 32 MB are queued for a process, Redis closes its connection, which ends all
streams of that process. Errors that replace answers are not counted: a whole batch of 50 has 60 kB at most."""


class AnswerBudget:
    """The bytes left for the answers to one POST.

    A request is run only while at least half of the budget is left, so an answer of up to half the budget always fits.
    """

    def __init__(self, size: int) -> None:
        self._left = size
        self._reserve = size // 2

    def check(self) -> None:
        """Raise RpcError if less than half of the budget is left."""
        if self._left < self._reserve:
            raise RpcError(
                TOO_LARGE, "Not run: the answers to this batch are too long already; send the request again by itself"
            )

    def fit(self, request_id: int | str, answer: bytes) -> bytes:
        """Return the answer if it fits, else an error in its place. Subtracts the size of the returned bytes."""
        if len(answer) > self._left:
            what = f"Carried out, but the answer of {len(answer)} bytes is too long to be sent here"
            way = "ask for less, or POST the request by itself to /api/v1/mcp"
            answer = error_reply(request_id, RpcError(TOO_LARGE, f"{what}: {way}"))
        self._left -= len(answer)
        return answer
