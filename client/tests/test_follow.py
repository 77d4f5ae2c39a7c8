"""Iterations read pages, wait for news, and end when the entity that they follow ends."""

import asyncio
import json
import time
from itertools import islice
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import pytest
from tests.support.fixed_answer import FixedAnswer
from tests.support.misbehaving import Misbehaving
from tests.support.nodes import NodeProcess
from tests.support.prepared import Prepared
from tests.support.servers import PATIENCE, free_port, until

from relay_client import AsyncRelay, DeadlineExceeded, NotFound, Relay
from relay_client.agents import card
from relay_client.events import LINES
from relay_client.signing import KeyFile
from relay_client.steps import Answer, Send

MORE_THAN_A_PAGE = 55
TRIES = 3
FAILS = range(1, TRIES + 1)


async def test_lists_go_on_when_the_node_was_away(served: NodeProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay_client.follow.RETURN_PAUSE", 0.1)
    async with AsyncRelay(served.url) as relay:
        offered = [
            await relay.tasks.offer("away pages", f"Count the figs in picture {number}")
            for number in range(MORE_THAN_A_PAGE)
        ]
        async with (
            Misbehaving(served.port, lambda n: "break" if n in FAILS else "pass") as way,
            AsyncRelay(way.url, tries=TRIES) as far,
        ):
            listed = [task["id"] async for task in far.tasks.all() if task["publisher_id"] == "away pages"]
        assert way.requests > len(FAILS)
        assert sorted(listed) == sorted(task["id"] for task in offered)
        for task in offered:
            await relay.tasks.cancel(task["id"], task["publisher_token"])


async def test_nobody_waits_longer_than_they_want_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node is silent, or not there. Regression: the first try took as long as a try may take."""
    monkeypatch.setattr("relay_client.carrier.TRY_SECONDS", 10 * PATIENCE)
    async with asyncio.timeout(PATIENCE), FixedAnswer() as silent:
        for url in (silent.url, f"http://127.0.0.1:{free_port()}"):
            began = time.monotonic()
            async with AsyncRelay(url) as relay:
                with pytest.raises(DeadlineExceeded):
                    await relay.tasks.result("1", within=1)
            assert time.monotonic() - began >= 1


async def test_an_iteration_can_be_closed(served: NodeProcess) -> None:
    async with AsyncRelay(served.url) as relay:
        mine = await relay.inboxes.open()
        await relay.inboxes.send(mine["address"], "Please count the apples.")
        messages = relay.inboxes.messages(mine["address"], mine["inbox_token"])
        assert (await anext(messages))["seq"] == 1
        await messages.aclose()
    with Relay(served.url) as waiting:
        again = waiting.inboxes.messages(mine["address"], mine["inbox_token"])
        assert next(again)["seq"] == 1
        again.close()


async def test_lists_are_read_page_by_page(served: NodeProcess) -> None:
    async with AsyncRelay(served.url) as relay:
        titles = [f"Count the apples in picture {number}" for number in range(MORE_THAN_A_PAGE)]
        offered = await asyncio.gather(*(relay.tasks.offer("pages", title) for title in titles))
        listed = [task["id"] async for task in relay.tasks.all() if task["publisher_id"] == "pages"]
        assert sorted(listed) == sorted(task["id"] for task in offered)
        for task in offered:
            await relay.tasks.cancel(task["id"], task["publisher_token"])


class Changing:
    """A node whose list changes while it is read.

    Rows in `gone` are left out of their page and removed from the list. With `new`, a row is added at the front after
    each page.
    """

    def __init__(self, *, gone: set[str], new: bool) -> None:
        self.rows = [str(number) for number in range(MORE_THAN_A_PAGE + len(gone))]
        self._gone = gone
        self._new = new

    def send(self, request: Send) -> Answer:
        query = dict(parse_qsl(urlsplit(request.url).query))
        offset = int(query.get("offset", 0))
        page = self.rows[offset : offset + int(query["limit"])]
        self.rows = [row for row in self.rows if row not in page or row not in self._gone]
        shown = {"tasks": [{"id": row} for row in page if row not in self._gone], "total": len(self.rows)}
        if self._new:
            self.rows.insert(0, f"new after {offset}")
        return Answer(200, {}, json.dumps(shown).encode())

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("gone", "new"),
    [({"3", "40", "45"}, False), (set(map(str, range(120))), False), (set[str](), True)],
    ids=["gone", "whole pages gone", "new"],
)
def test_a_list_that_changes_while_it_is_read_is_given_whole_and_once(gone: set[str], new: bool) -> None:
    with Relay("http://node.example", transport=cast("Any", changing := Changing(gone=gone, new=new))) as relay:
        listed = [task["id"] for task in relay.tasks.all()]
    assert listed == [row for row in changing.rows if row.isdecimal()]


def test_short_lists_are_one_page(served: NodeProcess, tmp_path: Path) -> None:
    with Relay(served.url, signer=KeyFile(tmp_path / "agent.key")) as relay:
        thread = relay.board.post("Looking for a painter", "Who can paint a door and a window?")
        assert thread["id"] in [one["id"] for one in relay.board.threads()]
        agent = relay.agents.register(card("Paint desk", "Paints doors and windows.", {"paint": "Paints doors."}))
        until(lambda: agent["id"] in [one["id"] for one in relay.agents.all()], "the agent is listed")
        relay.agents.remove(agent["id"])


async def test_replies_come_until_the_thread_is_closed(served: NodeProcess, tmp_path: Path) -> None:
    async with AsyncRelay(served.url, signer=KeyFile(tmp_path / "agent.key")) as relay:
        thread = await relay.board.post("A question of doors", "Who can paint a door for us this week?")

        async def discuss() -> None:
            await relay.board.reply(thread["id"], "I can paint it on Monday.")
            await relay.board.reply(thread["id"], "And I can do it on Tuesday.")
            await relay.board.close(thread["id"])

        discussing = asyncio.create_task(discuss())
        assert [reply["seq"] async for reply in relay.board.replies(thread["id"])] == [1, 2]
        await discussing


async def test_lines_come_until_the_session_is_destroyed(served: NodeProcess) -> None:
    async with AsyncRelay(served.url) as relay:
        session = await relay.sessions.open()
        lines: list[str] = []
        await relay.sessions.send(session["session_id"], "one")
        async for line in relay.sessions.lines(session["session_id"]):
            lines.append(line["body"])
            if line["seq"] == 1:
                await relay.sessions.send(session["session_id"], "two")
            else:
                await relay.sessions.destroy(session["session_id"], session["destroy_token"])
        assert lines == ["one", "two"]
        with pytest.raises(NotFound):
            await anext(aiter(relay.sessions.lines(session["session_id"])))


async def test_offers_come_as_they_are_made(served: NodeProcess) -> None:
    async with AsyncRelay(served.url) as relay:
        made = [
            (await relay.tasks.offer("offers", f"Count the {fruit}", skills=[fruit]))["id"]
            for fruit in ("apples", "figs")
        ]
        seen: list[str] = []
        async for task in relay.tasks.offers(publisher_id="offers"):
            seen.append(task["id"])
            if len(seen) == 5:
                break
            if len(seen) == 2:  # the first page is read; the next one has several offers, too
                for fruit in ("pears", "plums", "nuts"):
                    made.append((await relay.tasks.offer("offers", f"Count the {fruit}", skills=[fruit]))["id"])
        assert seen == made


async def test_the_end_of_a_topic_is_the_end_of_its_events(served: NodeProcess) -> None:
    async with AsyncRelay(served.url) as relay:
        session = await relay.sessions.open()
        await relay.sessions.send(session["session_id"], "one")
        topic = f"session:{session['session_id']}"
        with pytest.raises(NotFound):
            async for event in relay.events.follow(topic, cursor="earliest"):
                assert event.get("type") == "session.line"
                await relay.sessions.destroy(session["session_id"], session["destroy_token"])


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 20, 21, 1000])
def test_events_are_the_same_in_whatever_pieces_they_come(piece: int) -> None:
    sent = [{"id": str(number), "type": "thread.posted"} for number in range(5)]
    lines = "\n".join([json.dumps(event) for event in sent])
    stream = Answer(200, {"content-type": LINES}, b"%s\n" % lines.encode())
    with Relay("http://node", transport=Prepared(stream, piece=piece)) as relay:
        assert list(islice(relay.events.follow("board"), len(sent))) == sent
