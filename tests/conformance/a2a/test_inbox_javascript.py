"""The official JavaScript client (@a2a-js/sdk) talks to an inbox as to any agent, over both bindings (NETWORK 1)."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.conformance import javascript
from tests.conformance.a2a.test_inbox_agents import owned
from tests.support.nodes import NodeProcess

Outcomes = dict[str, Any]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node of two web processes and a worker, which may call the test's receiver."""
    with NodeProcess(tmp_path_factory.mktemp("node") / "data") as node:
        node.start(RELAY_WORKERS="2", RELAY_CALLBACK_ALLOW_PRIVATE="true").ready()
        yield node


@pytest_asyncio.fixture(params=["HTTP+JSON", "JSONRPC"])
async def outcomes(
    whole: NodeProcess, http: httpx.AsyncClient, request: pytest.FixtureRequest
) -> AsyncIterator[Outcomes]:
    """Results of the operations in js/inbox.mjs."""
    async with owned(whole, http) as inbox:
        written = await asyncio.to_thread(javascript.run, "inbox.mjs", inbox["a2a_url"], request.param)
    yield json.loads(written)


async def test_an_inbox_is_called_streamed_from_asked_back_canceled_and_pushes(outcomes: Outcomes) -> None:
    assert (outcomes["card"]["streaming"], outcomes["card"]["pushNotifications"]) == (True, True)

    called = outcomes["called"]
    assert called["status"]["state"] == "TASK_STATE_COMPLETED"
    assert called["artifacts"][0]["parts"][0]["text"] == "HELLO"
    assert outcomes["got"] == called
    assert outcomes["listed"] == [called["id"]]

    assert [kind for event in outcomes["streamed"] for kind in event][-2:] == ["artifactUpdate", "statusUpdate"]
    assert "task" in outcomes["streamed"][0]
    asked, answered = outcomes["asked"]
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert (answered["id"], answered["status"]["state"]) == (asked["id"], "TASK_STATE_COMPLETED")

    assert "task" in outcomes["followed"][0]
    assert outcomes["followed"][-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert outcomes["canceled"]["status"]["state"] == "TASK_STATE_CANCELED"

    *before, last = [each["event"] for each in outcomes["pushed"]]
    if "task" in last:  # unless the worker read the task only after its end
        assert last["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        (artifact,) = last["task"]["artifacts"]
    else:
        assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        artifact = before[-1]["artifactUpdate"]["artifact"]
    assert artifact["parts"][0]["text"] == "TELL ME"
    assert {(each["token"], each["shown"]) for each in outcomes["pushed"]} == {("t0ken", "Bearer cr3dentials")}
    configs = outcomes["configs"]
    assert (configs["made"], configs["read"], configs["kept"]) == ("made", configs["url"], ["sent"])
