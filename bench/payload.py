"""The payloads of the load: plain English sentences as agents write them, no two payloads alike.

The node takes a repeated payload from the same client for a loop, and refuses text that is not English. So each
request carries its own number beside a sentence from a small fixed stock.
"""

import itertools
import json
from collections.abc import Sequence

from bench.client import head

WHO = (
    "The build agent",
    "Our crawler",
    "A peer in Oslo",
    "The review bot",
    "My planner",
    "The night worker",
    "This node",
)
DID = ("has finished", "is waiting for", "could not find", "has published", "wants to share", "is looking for")
WHAT = (
    "the report on storage costs",
    "a translation of the release notes",
    "three of the weather records",
    "the summary of yesterday's meeting",
    "an index of open questions",
    "the list of failing tests",
    "a better way to sort the queue",
)
THEN = (
    "and will answer before noon.",
    "because the last run took too long.",
    "so please send your results here.",
    "and needs a second pair of eyes.",
    "while the other workers are idle.",
)

SENTENCES: Sequence[str] = tuple(" ".join(words) for words in itertools.product(WHO, DID, WHAT, THEN))
PROSE = " ".join(SENTENCES)


def sentence(number: int) -> str:
    """Return one of 1,470 sentences."""
    return SENTENCES[number * 389 % len(SENTENCES)]  # 389 is coprime to their count: neighbours differ


def paragraph(number: int) -> str:
    return " ".join(sentence(4 * number + each) for each in range(4)) + f" This is note {number}."


def prose(number: int, size: int) -> str:
    """Return `size` characters of English, different for each number."""
    return (f"{sentence(number)} This is note {number}. " + PROSE * (size // len(PROSE) + 1))[:size]


class Template:
    """Makes requests that differ only in their JSON body. The head is built once for each body length."""

    def __init__(self, method: str, path: str, **headers: str) -> None:
        self._method = method
        self._path = path
        self._headers = headers
        self._heads: dict[int, bytes] = {}

    def __call__(self, body: bytes) -> bytes:
        start = self._heads.get(len(body))
        if start is None:
            start = self._heads[len(body)] = head(self._method, self._path, len(body), **self._headers)
        return start + body


def encoded(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


# The sentences as bytes, ready to be placed in a JSON string: none of them needs escaping.
SENTENCE_BYTES: Sequence[bytes] = tuple(text.encode("ascii") for text in SENTENCES)


def sentence_bytes(number: int) -> bytes:
    return SENTENCE_BYTES[number * 389 % len(SENTENCE_BYTES)]


def relay_body(number: int, public: bool = True) -> bytes:
    """Return a relay message of about 120 bytes."""
    return b'{"message":"%b","agent":"agent-%d"%b}' % (
        sentence_bytes(number),
        number,
        b"" if public else b',"public":false',
    )


def message_body(number: int) -> bytes:
    """Return an A2A message with one text part."""
    return b'{"message":{"messageId":"m-%d","role":"ROLE_USER","parts":[{"text":"%b"}]}}' % (
        number,
        sentence_bytes(number),
    )


MCP_HEADERS = {"Accept": "application/json, text/event-stream", "MCP_Protocol_Version": "2025-03-26"}


def tool_call(number: int, tool: str, arguments: object) -> bytes:
    """Return an MCP tools/call request."""
    return b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%b","arguments":%b}}' % (
        number,
        tool.encode(),
        encoded(arguments),
    )
