"""How much the answers to one POST may be: a batch multiplies what a client sends, and a stream's way is narrow."""

import sys

from node.mcp.json_rpc import TOO_LARGE, RpcError, error_reply

BATCH = 1024 * 1024
"""Bytes of the answers to one batch."""

STREAM = 192 * 1024
"""Bytes of the answers that go to an event stream at once. Redis carries them to the process that holds it, and closes
the connection of a process for which more than 32 MB wait, with all streams on it. Answers that say only that there was
no room, 50 of which have 60 kB at most, come on top."""


class AnswerBudget:
    """What is left for the answers to one POST. A request whose answer has up to half of it is never run in vain."""

    def __init__(self, size: int = sys.maxsize) -> None:
        self._left = size
        self._enough = size // 2

    def check(self) -> None:
        """Raise RpcError if a request should not be run any more."""
        if self._left < self._enough:
            raise RpcError(TOO_LARGE, "Not run: the answers to the batch are long enough without; send it in another")

    def fit(self, message_id: int | str, answer: bytes) -> bytes:
        """The answer, or in its place, if it is too large, one that says so."""
        if len(answer) > self._left:
            what = f"Carried out, but the answer of {len(answer)} bytes is more than fits here"
            way = "ask for less, or POST the request by itself to /api/v1/mcp"
            answer = error_reply(message_id, RpcError(TOO_LARGE, f"{what}: {way}"))
        self._left -= len(answer)
        return answer
