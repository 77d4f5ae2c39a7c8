"""A call takes effect once, whatever happens on the way to a real node."""

import asyncio
import random
import signal
from collections import Counter

import pytest
from tests.support.client_node import begin
from tests.support.misbehaving import Misbehaving
from tests.support.nodes import PATIENCE, NodeProcess

from relay_client import AsyncRelay, Conflict, NotFound, Unavailable, Unreachable
from relay_client.fast import AiohttpTransport
from relay_client.steps import Answer, NoAnswer, Send
from relay_client.transport import AsyncHttpxTransport, AsyncTransport

FAULTS = ("lose", "break", "unknown", "down", "busy", "pass", "pass", "pass")
MESSAGES = 20
PATIENT = 100  # tries
TASK = "Count the apples in this picture"


@pytest.fixture(params=[AsyncHttpxTransport, AiohttpTransport], ids=["httpx", "aiohttp"])
def transport(request: pytest.FixtureRequest) -> AsyncTransport:
    return request.param()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    short = {"events.RETURN": 0.2, "follow.RETURN": 0.2, "carrier.FIRST": 0.02, "carrier.LONGEST": 0.5}
    for name, seconds in short.items():
        monkeypatch.setattr(f"relay_client.{name}_PAUSE", seconds)


@pytest.mark.parametrize("what", ["lose", "break", "unknown", "down", "busy"])
async def test_a_call_takes_effect_once(served: NodeProcess, transport: AsyncTransport, what: str) -> None:
    publisher = f"{what} {type(transport).__name__}"
    async with Misbehaving(served.port, lambda n: what if n < 2 else "pass") as way:
        async with AsyncRelay(way.url, transport=transport) as relay:
            offered = await relay.tasks.offer(publisher, TASK)
        assert way.requests == 3
        assert way.passed == (3 if what in ("lose", "unknown") else 1)
    async with AsyncRelay(served.url) as relay:
        page = await relay.tasks.list(publisher_id=publisher)
        assert [task["id"] for task in page["tasks"]] == [offered["id"]]
        await relay.tasks.cancel(offered["id"], offered["publisher_token"])


async def test_a_claim_whose_answer_was_lost_belongs_to_its_worker(served: NodeProcess) -> None:
    async with AsyncRelay(served.url) as relay, Misbehaving(served.port, lambda n: "pass" if n % 2 else "lose") as way:
        offered = await relay.tasks.offer("lost claims", TASK)
        async with AsyncRelay(way.url) as lossy:
            claimed = await lossy.tasks.claim(offered["id"], "worker")
            assert (await lossy.tasks.extend(offered["id"], claimed["claim_token"]))["attempt"] == 1
            done = await lossy.tasks.complete(offered["id"], claimed["claim_token"], {"apples": 3})
        assert done["status"] == "completed"
        with pytest.raises(Conflict):
            await relay.tasks.claim(offered["id"], "another worker")


async def test_what_must_not_be_repeated_is_tried_once(served: NodeProcess) -> None:
    async with AsyncRelay(served.url) as relay:
        thread = await relay.board.post("Looking for a CSV parser", "Who can parse a large CSV file in a sandbox?")
        for what, expected in (("lose", Unreachable), ("unknown", Unavailable)):
            async with Misbehaving(served.port, lambda _, what=what: what) as way, AsyncRelay(way.url) as lossy:
                with pytest.raises(expected):
                    await lossy.board.report(thread["id"], "It is spam.")
                assert way.requests == 1


async def test_a_refusal_that_a_lost_answer_may_explain_says_so(served: NodeProcess, transport: AsyncTransport) -> None:
    """Regression: aiohttp repeated the request by itself, and the caller did not learn about the first one."""
    async with AsyncRelay(served.url) as owner:
        mine = await owner.inboxes.open()
    async with Misbehaving(served.port, lambda n: "pass" if n else "lose") as way:
        async with AsyncRelay(way.url, transport=transport) as relay:
            with pytest.raises(NotFound) as refused:
                await relay.inboxes.close(mine["address"], mine["inbox_token"])
        assert way.requests == 2
    assert refused.value.may_have_happened


async def test_a_bad_network_neither_loses_nor_doubles_a_message(served: NodeProcess) -> None:
    """The faults are random, with a fixed seed."""
    chance = random.Random(7)
    async with AsyncRelay(served.url) as owner, Misbehaving(served.port, lambda _: chance.choice(FAULTS)) as way:
        mine = await owner.inboxes.open()
        address, token = mine["address"], mine["inbox_token"]
        async with AsyncRelay(way.url, tries=PATIENT) as relay:
            bodies = [f"Message {number}" for number in range(MESSAGES)]
            sent = await asyncio.gather(*(relay.inboxes.send(address, body) for body in bodies))
            assert len({one["id"] for one in sent}) == MESSAGES
            came: list[str] = []
            async for message in relay.inboxes.messages(address, token):
                came.append(message["body"] or "")
                if len(came) == MESSAGES:
                    await relay.inboxes.settle(address, message["id"], token)
                    break
        assert Counter(came) == Counter(bodies)
        assert (await owner.inboxes.read(address, token))["waiting"] == 0
        assert way.requests > 2 * MESSAGES


class LosingAnswers(AsyncHttpxTransport):
    """A transport that loses the answer to the first PUT."""

    def __init__(self) -> None:
        super().__init__()
        self.uploads = 0

    async def send(self, request: Send) -> Answer:
        self.uploads += request.method == "PUT"
        answer = await super().send(request)
        if request.method == "PUT" and self.uploads == 1:
            raise NoAnswer("reset", unsent=False)
        return answer


async def test_an_upload_whose_answer_was_lost_has_succeeded(served: NodeProcess) -> None:
    """Regression: the node closed the connection when it refused the second try, so that answer was lost, too."""
    transport = LosingAnswers()
    async with AsyncRelay(served.url, transport=transport) as relay:
        manifest = await relay.artifacts.upload(b"apples\n" * 500_000, "desk")
    assert (manifest["status"], transport.uploads) == ("available", 2)


class Counting(AsyncHttpxTransport):
    """A transport that counts the statuses of its answers."""

    def __init__(self) -> None:
        super().__init__()
        self.statuses: Counter[int] = Counter()

    async def send(self, request: Send) -> Answer:
        answer = await super().send(request)
        self.statuses[answer.status] += 1
        return answer


async def test_a_storm_of_429_is_waited_out(served: NodeProcess) -> None:
    """All calls start at once. Those told to wait retry when there is room; later calls wait before their first try."""
    transport = Counting()
    async with AsyncRelay(served.url, transport=transport) as relay:
        texts = [f"The search found thread {number} at once." for number in range(MESSAGES)]
        sent = await asyncio.gather(*map(relay.node.feedback, texts))
        assert len({one["feedback_id"] for one in sent}) == MESSAGES
        stormed = transport.statuses[429]
        assert stormed <= 2 * MESSAGES
        for number in range(6):
            await relay.node.feedback(f"The search found reply {number} at once.")
    assert transport.statuses == {200: MESSAGES + 6, 429: stormed}


async def test_a_restart_of_the_node_loses_and_doubles_nothing(served: NodeProcess) -> None:
    async with AsyncRelay(served.url, tries=PATIENT) as relay:
        cursor = (await relay.events.page("tasks"))["cursor"]
        followed: list[str] = []

        async def follow() -> None:
            async for event in relay.events.follow("tasks", types=["task.offered"], cursor=cursor):
                data = event.get("data", {})
                if data["publisher_id"] == "restarted":  # on a busy machine, offers of other tests come late
                    followed.append(data["id"])
                if len(followed) == MESSAGES:
                    return

        following = asyncio.create_task(follow())
        offered: list[str] = []
        for number in range(MESSAGES):
            if number == MESSAGES // 2:
                await asyncio.to_thread(restart, served)
            offered.append((await relay.tasks.offer("restarted", f"Count the apples in picture {number}"))["id"])
        await asyncio.wait_for(following, PATIENCE)
        page = await relay.tasks.list(publisher_id="restarted", limit=50)
    assert sorted(followed) == sorted(offered)
    assert sorted(task["id"] for task in page["tasks"]) == sorted(offered)


def restart(node: NodeProcess) -> None:
    """Restart the node, without waiting until it is ready."""
    node.signal(signal.SIGTERM)
    node.wait()
    begin(node)
