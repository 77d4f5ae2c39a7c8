"""What the transports have in common, with a real node where one takes part."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import aiohttp
import httpx
import pytest
from tests.support.fixed_answer import FixedAnswer, answer
from tests.support.nodes import NodeProcess
from tests.support.servers import eventually

from relay_client import AsyncRelay, DeadlineExceeded, Relay
from relay_client.fast import AiohttpTransport
from relay_client.signing import KeyFile
from relay_client.transport import AsyncHttpxTransport, AsyncTransport, HttpxTransport

MakeTransport = Callable[..., AsyncTransport]


@pytest.fixture(params=[AsyncHttpxTransport, AiohttpTransport], ids=["httpx", "aiohttp"])
def make(request: pytest.FixtureRequest) -> MakeTransport:
    return request.param


async def test_what_is_signed_is_sent_as_it_was_signed(
    served: NodeProcess, make: MakeTransport, tmp_path: Path
) -> None:
    key = KeyFile(tmp_path / "agent.key")
    async with AsyncRelay(served.url, signer=key, transport=make()) as relay:
        await relay.inboxes.open()
        page = await relay.events.page(f"inbox:{key.address}", types=["inbox.message"], cursor="earliest")
        assert page["events"] == []


def one_connection(make: MakeTransport) -> AsyncTransport:
    if make is AiohttpTransport:
        return make(connector=aiohttp.TCPConnector(limit=1))
    return make(limits=httpx.Limits(max_connections=1))


async def test_a_call_that_gets_no_connection_fails_at_its_deadline(make: MakeTransport) -> None:
    async with FixedAnswer() as silent, AsyncRelay(silent.url, transport=one_connection(make)) as relay:
        first = asyncio.create_task(relay.node.health())
        await eventually(lambda: silent.heads)
        with pytest.raises(DeadlineExceeded):
            await relay.with_options(deadline=0.5).node.health()
        assert len(silent.heads) == 1
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first


async def test_headers_may_be_added(make: MakeTransport) -> None:
    async with FixedAnswer(answer("200 OK", b"{}")) as node:
        async with AsyncRelay(node.url, transport=make(headers={"X-Team": "solar"})) as relay:
            await relay.node.health()
        options = {"headers": {"user-agent": "solar"}}
        with Relay(node.url, transport=HttpxTransport(**options)) as waiting:
            await asyncio.to_thread(waiting.node.health)
    assert b"x-team: solar" in node.heads[0].lower()
    assert b"user-agent: relay-node-client/" in node.heads[0].lower()
    assert node.heads[1].lower().count(b"user-agent:") == 1
    assert b"user-agent: solar" in node.heads[1].lower()
