"""Clients that keep sending to one inbox, and an owner who settles every message (NETWORK 1).

A request without an answer is repeated: a message under its Idempotency-Key, a settlement unchanged. So at the end,
every acknowledged message must have been read, in order, and settled once.
"""

import asyncio
from collections import Counter
from itertools import count
from typing import Any, Self
from uuid import uuid4

import httpx2

from tests.faults.writers import Clients
from tests.inbox.calls import INBOXES, Json, bearer
from tests.support.node_under_test import until
from tests.support.servers import PATIENCE

PAUSE = 0.02  # s before a refused request is repeated
SETTLED_AT_ONCE = 16
READERS = 16  # receipts read concurrently


class InboxTraffic(Clients):
    """Several senders and one owner, for as long as the context lasts."""

    def __init__(self, client: httpx2.AsyncClient, senders: int = 8) -> None:
        super().__init__()
        self.answers: Counter[int] = Counter()
        """Number of answers to all clients by status; 0 stands for no answer."""
        self.sent: list[list[Json]] = [[] for _ in range(senders)]
        """The acknowledgements of each sender, in the order of sending, each with its `body`."""
        self.seen: dict[str, tuple[int, str]] = {}
        """`seq` and `body` of each message by id, in the order in which the owner first saw them."""
        self.settled: Counter[str] = Counter()
        """How many times the owner was told that a message is settled, by id."""
        self.inbox: Json = {}
        self._client = client

    async def __aenter__(self) -> Self:
        self.inbox = (await self._client.post(INBOXES)).json()
        self._messages = f"{INBOXES}/{self.inbox['address']}/messages"
        self._owner = bearer(self.inbox["inbox_token"])
        self._tasks = [asyncio.create_task(self._send(number)) for number in range(len(self.sent))]
        self._tasks.append(asyncio.create_task(self._settle_all()))
        return self

    @property
    def acknowledged(self) -> int:
        return sum(map(len, self.sent))

    async def further(self, messages: int) -> None:
        """Return once this many more messages have been settled."""
        await self._counted(lambda: len(self.settled), messages)

    async def _send(self, number: int) -> None:
        for turn in count():
            if self._stopped:
                return
            body, key = f"{turn} of {number}", {"idempotency-key": str(uuid4())}
            answer = await self._answered("POST", self._messages, {"body": body}, key)
            self.sent[number].append(answer | {"body": body})

    async def _settle_all(self) -> None:
        while True:
            is_last = self._stopped and all(task.done() for task in self._tasks[:-1])
            page = await self._answered("GET", f"{self._messages}?limit=100&wait=1", None, self._owner)
            for each in page["messages"]:
                self.seen.setdefault(each["id"], (each["seq"], each["body"]))
            gate = asyncio.Semaphore(SETTLED_AT_ONCE)
            await asyncio.gather(*(self._settle(each, gate) for each in page["messages"]))
            if is_last and not page["messages"]:
                return

    async def _settle(self, message: Json, gate: asyncio.Semaphore) -> None:
        async with gate:
            settlement = {"status": "done", "reply": message["body"]}
            path = f"{self._messages}/{message['id']}/settle"
            answer = await self._answered("POST", path, settlement, self._owner)
        assert answer["seq"] == message["seq"]
        self.settled[message["id"]] += 1

    async def _answered(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Json:
        """Repeat a request until it succeeds, and return the answer."""
        while True:
            try:
                response = await self._client.request(method, path, json=body, headers=headers)
            except httpx2.TransportError:  # the process died before it answered
                self.answers[0] += 1
            else:
                self.answers[response.status_code] += 1
                if response.is_success:
                    return response.json()
                assert response.status_code in (429, 503), f"{path}: {response.status_code} {response.text}"
            await asyncio.sleep(PAUSE)

    async def lost(self) -> int:
        """Return how many acknowledged messages are not settled with the owner's answer.

        A read that is refused for now says nothing about the message, and is repeated. So is a read on an idle
        connection that the node has closed meanwhile.
        """
        gate = asyncio.Semaphore(READERS)

        async def is_kept(message: Json) -> bool:
            path, token = f"{self._messages}/{message['id']}", bearer(message["receipt_token"])
            kept = False

            async def is_answered() -> bool:
                nonlocal kept
                try:
                    response = await self._client.get(path, headers=token)
                except httpx2.RemoteProtocolError:  # closed without an answer
                    return False
                kept = response.is_success and response.json()["reply"] == message["body"]
                return response.status_code not in (429, 503)

            async with gate:
                await until(is_answered, PATIENCE)
            return kept

        found = await asyncio.gather(*(is_kept(message) for messages in self.sent for message in messages))
        return found.count(False)

    def check_order(self) -> None:
        """Check that numbers have no gap, that the owner saw them in order, and that each sender's messages are in the
        order of sending.
        """
        numbers = [seq for seq, _ in self.seen.values()]
        assert numbers == list(range(1, len(numbers) + 1))
        for messages in self.sent:
            own = [message["seq"] for message in messages]
            assert own == sorted(own)

    @property
    def twice(self) -> int:
        """Return how many messages are there, or were settled, more than once."""
        bodies = Counter(body for _, body in self.seen.values())
        return sum(times - 1 for counts in (bodies, self.settled) for times in counts.values())
