"""The owner of an inbox who answers as the protocol's test kit (a2a-tck, branch 1.0-dev) requires of an agent under
test.

`python -m tests.conformance.a2a.kit_owner http://127.0.0.1:8000` opens an inbox, prints its `a2a_url`, and answers
until it is stopped (docs/conformance.md). The prefix of a messageId tells how to answer. The owner reads the messageId
from the task, since the message in the inbox is only the text.
"""

import asyncio
import sys
from typing import Any

import httpx

from tests.support.servers import PATIENCE

REPLIES = {
    "tck-artifact-text": "Generated text content",
    "tck-stream-artifact-text": "Streamed text content",
    "tck-stream-001": "Stream hello from TCK",
    "tck-stream-003": "Stream task lifecycle",
    "tck-stream-ordering-001": "Ordered output",
}
OTHERWISE = {"tck-input-required": "input_required", "tck-reject-task": "refused"}
"""Statuses other than `done`, by messageId prefix."""

SLOW = "test-resubscribe"
SLOW_SECONDS = 4.0
"""Seconds before a slow answer: twice as long as the kit waits for an event on a stream."""


class Owner:
    """Answers the messages of an inbox."""

    def __init__(self, http: httpx.AsyncClient, inbox: dict[str, Any]) -> None:
        self.a2a_url = inbox["a2a_url"]
        self._http = http
        self._messages = f"{inbox['url']}/messages"
        self._proof = {"authorization": f"Bearer {inbox['inbox_token']}"}
        self._tasks: dict[str, str] = {}
        """Task ids by message id, because a message that continues a task names the message before it."""

    async def run(self) -> None:
        """Answer until cancelled."""
        seen = 0
        async with asyncio.TaskGroup() as answers:
            while True:
                query = {"wait": 20, "since_seq": seen}
                page = (await self._http.get(self._messages, params=query, headers=self._proof)).json()
                seen = page["next_since_seq"]
                for message in page["messages"]:
                    task_id = self._tasks.get(str(message["in_reply_to"])) or str(message["id"])
                    self._tasks[message["id"]] = task_id
                    answers.create_task(self._answer(message, task_id))

    async def _answer(self, message: dict[str, Any], task_id: str) -> None:
        task = (await self._http.get(f"{self.a2a_url}/tasks/{task_id}")).json()
        wanted = [turn["messageId"] for turn in task["history"] if turn["role"] == "ROLE_USER"][-1]
        if wanted.startswith(SLOW):
            await asyncio.sleep(SLOW_SECONDS)
        reply = next((said for prefix, said in REPLIES.items() if wanted.startswith(prefix)), message["body"].upper())
        status = next((named for prefix, named in OTHERWISE.items() if wanted.startswith(prefix)), "done")
        settlement = {"status": status, "reply": reply}
        await self._http.post(f"{self._messages}/{message['id']}/settle", json=settlement, headers=self._proof)


async def main(base: str) -> None:
    """Open an inbox at a node, and answer its messages."""
    async with httpx.AsyncClient(timeout=PATIENCE) as http:
        inbox = (await http.post(f"{base}/api/v1/inboxes", json={"label": "Test kit"})).json()
        owner = Owner(http, inbox)
        sys.stdout.write(f"{owner.a2a_url}\n")
        sys.stdout.flush()
        await owner.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
