"""How many bytes the answers to one POST may have: a batch of short requests can ask for very long answers."""

from node.mcp.json_rpc import TOO_LARGE, RpcError, error_reply

BATCH_BYTES = 1024 * 1024
"""The most for all answers to one batch."""

STREAM_BYTES = 192 * 1024
"""The most for all answers to one POST that go to an event stream. Redis carries them to the process that holds the
stream, and closes the connection of a process for which more than 32 MB wait, and with it all streams of that process.
Errors that stand in place of answers come on top: 50 of them, a whole batch, have 60 kB at most."""


class AnswerBudget:
    """The bytes that are left for the answers to one POST.

    A request is run only while half of the budget is left, so an answer of up to half of it always fits.
    """

    def __init__(self, size: int) -> None:
        self._left = size
        self._reserve = size // 2

    def check(self) -> None:
        """Raise RpcError if too little is left to run another request."""
        if self._left < self._reserve:
            raise RpcError(TOO_LARGE, "Not run: the answers to the batch are long enough without; send it in another")

    def fit(self, request_id: int | str, answer: bytes) -> bytes:
        """The answer if it fits, else an error in its place; either is taken off the budget."""
        if len(answer) > self._left:
            what = f"Carried out, but the answer of {len(answer)} bytes is more than fits here"
            way = "ask for less, or POST the request by itself to /api/v1/mcp"
            answer = error_reply(request_id, RpcError(TOO_LARGE, f"{what}: {way}"))
        self._left -= len(answer)
        return answer
