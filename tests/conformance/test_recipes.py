"""The recipes for signing and for work do what they say, unchanged, against a real node.

The recipe for callbacks is tested with the callbacks, those for curl, Python, TypeScript and generated clients with the
clients that they need.
"""

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from node.recipes.markdown import RECIPES
from tests.support.misbehaving import Misbehaving
from tests.support.nodes import NodeProcess
from tests.support.servers import PATIENCE
from tests.support.stripping_proxy import StrippingProxy

MARKDOWN = {"accept": "text/markdown"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node that may call receivers on this machine."""
    node = NodeProcess(tmp_path_factory.mktemp("node"))
    settings = {"RELAY_CALLBACK_ALLOW_PRIVATE": "true", "RELAY_EMBEDDING_MODEL": "none", "RELAY_WORKERS": "1"}
    with node.start(**settings).ready():
        yield node


def code_of(node: NodeProcess, recipe: str) -> list[tuple[str, str]]:
    """Return language and text of each of a recipe's code blocks, as a program gets them."""
    answer = httpx2.get(f"{node.url}/recipes/{recipe}", headers=MARKDOWN, timeout=PATIENCE)
    assert answer.headers["content-type"].startswith("text/markdown")
    return re.findall(r"```(\w+)\n(.*?)```", answer.text, re.DOTALL)


@asynccontextmanager
async def running(
    node: NodeProcess, recipe: str, folder: Path, url: str = "", own: str = "", **settings: str
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Run a recipe's Python code against `url`, by default the node's own. The process is killed at the end.

    `own`: a line that the recipe's reader writes at the place intended for it.
    """
    ((_, code),) = [each for each in code_of(node, recipe) if each[0] == "python"]
    if own:
        code, places = re.subn(r'(    """Yours to write\..*"""\n)', rf"\1    {own}\n", code)
        assert places == 1
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-c", code.replace(node.url, url or node.url)),
        cwd=folder,
        env=os.environ | settings,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_a_request_is_signed_as_the_recipe_says(served: NodeProcess, tmp_path: Path) -> None:
    for _ in range(2):  # the second time with the key that the first run created
        async with running(served, "sign-a-request", tmp_path) as process, asyncio.timeout(PATIENCE):
            said = (await process.stdout.read()).decode() if process.stdout else ""
        assert re.fullmatch(r"signed: True with [\w-]{43}\nclosed: True\n", said), said
    assert (tmp_path / "agent.key").stat().st_mode & 0o077 == 0


async def test_a_request_is_signed_for_a_node_below_a_path(tmp_path: Path) -> None:
    """The path must not be taken for a part of the host, or the signed URL would differ from the requested one."""
    with StrippingProxy("/relay") as proxy, NodeProcess(tmp_path) as node:
        node.start(RELAY_EMBEDDING_MODEL="none", RELAY_WORKERS="1", RELAY_BASE_URL=proxy.url).ready()
        proxy.leading_to(node.port)
        async with running(node, "sign-a-request", tmp_path) as process, asyncio.timeout(PATIENCE):
            said = (await process.stdout.read()).decode() if process.stdout else ""
    assert re.fullmatch(r"signed: True with [\w-]{43}\nclosed: True\n", said), said


async def test_a_worker_fails_the_attempt_whose_result_is_refused(served: NodeProcess, tmp_path: Path) -> None:
    """If the claim stayed, nobody could have the contract until the lease ended, if it had one."""
    schema = {"type": "object", "required": ["pages"]}
    async with httpx2.AsyncClient(base_url=served.url, timeout=PATIENCE) as client, asyncio.timeout(PATIENCE):
        body = {"publisher_id": "desk", "title": "Count the pages of a report", "result_schema": schema}
        offer = (await client.post("/api/v1/tasks", json=body)).json()
        async with running(served, "worker", tmp_path, CONTRACTS="1") as process:
            await process.wait()
        task = (await client.get(f"/api/v1/tasks/{offer['id']}")).json()
    assert task["status"] == "failed"
    assert task["attempts"][0]["reason"]["code"] == "result.unfit"
    assert "required property" in task["attempts"][0]["reason"]["message"]


async def test_a_contract_that_ends_the_work_fails_and_does_not_end_the_worker(
    served: NodeProcess, tmp_path: Path
) -> None:
    """If the contract were given back, it would end one worker after the other."""
    async with httpx2.AsyncClient(base_url=served.url, timeout=PATIENCE) as client, asyncio.timeout(PATIENCE):
        titles = ("Count the pages of no report", "Count the pages of a long report")
        offers = [
            (await client.post("/api/v1/tasks", json={"publisher_id": "desk", "title": title})).json()
            for title in titles
        ]
        own = "1 / (' no ' not in task['title'])"
        async with running(served, "worker", tmp_path, own=own, CONTRACTS="2") as process:
            await process.wait()
        bad, good = [(await client.get(f"/api/v1/tasks/{offer['id']}")).json() for offer in offers]
    assert (bad["status"], good["status"]) == ("failed", "completed")
    assert bad["attempts"][0]["reason"]["message"] == "ZeroDivisionError"


async def test_a_worker_does_the_contracts_that_are_offered(served: NodeProcess, tmp_path: Path) -> None:
    async with httpx2.AsyncClient(base_url=served.url, timeout=PATIENCE) as client:
        offers = [
            (
                await client.post("/api/v1/tasks", json={"publisher_id": "desk", "title": title, "lease_seconds": 60})
            ).json()
            for title in ("Summarise the first report", "Summarise the second report")
        ]
        async with running(served, "worker", tmp_path, CONTRACTS="2") as process, asyncio.timeout(PATIENCE):
            said = (await process.stdout.read()).decode() if process.stdout else ""
        assert said.count("completed Summarise the") == 2, said
        for offer in offers:
            done = (await client.get(f"/api/v1/tasks/{offer['id']}")).json()
            assert (done["status"], done["assignee_id"]) == ("completed", "summary-agent")
            assert "summary" in done["result_payload"]


async def test_a_worker_and_an_owner_repeat_what_had_no_answer(served: NodeProcess, tmp_path: Path) -> None:
    """Otherwise they would stop there, although the worker's contract was already claimed."""

    def every_other(number: int) -> str:
        return ("lose", "pass", "break", "pass")[number % 4]

    async with (
        httpx2.AsyncClient(base_url=served.url, timeout=PATIENCE) as client,
        Misbehaving(served.port, every_other) as way,
        asyncio.timeout(PATIENCE),
    ):
        offer = (await client.post("/api/v1/tasks", json={"publisher_id": "desk", "title": "Summarise it"})).json()
        async with running(served, "worker", tmp_path, way.url, CONTRACTS="1") as process:
            said = (await process.stdout.read()).decode() if process.stdout else ""
        assert said == "completed Summarise it\n"
        assert (await client.get(f"/api/v1/tasks/{offer['id']}")).json()["attempt"] == 1
        async with running(served, "inbox", tmp_path, way.url, ANSWERS="1") as process:
            assert process.stdout
            address = (await process.stdout.readline()).decode().removeprefix("write to ").strip()
            asking = client.post(f"/api/v1/inboxes/{address}/messages?wait=30", json={"body": "Are you there?"})
            assert (await asking).json()["reply"] == "Read: Are you there?"
            assert (await process.stdout.read()).decode() == "answered 1\n"


async def test_an_owner_answers_and_goes_on_with_the_same_address(served: NodeProcess, tmp_path: Path) -> None:
    addresses: set[str] = set()
    async with httpx2.AsyncClient(base_url=served.url, timeout=PATIENCE) as client, asyncio.timeout(PATIENCE):
        for _ in range(2):  # the second time with the inbox that the first run opened
            async with running(served, "inbox", tmp_path, ANSWERS="1") as process:
                assert process.stdout
                address = (await process.stdout.readline()).decode().removeprefix("write to ").strip()
                addresses.add(address)
                asking = client.post(f"/api/v1/inboxes/{address}/messages?wait=30", json={"body": "Are you there?"})
                assert (await asking).json()["reply"] == "Read: Are you there?"
                assert (await process.stdout.read()).decode().startswith("answered")
    assert len(addresses) == 1
    assert (tmp_path / "inbox.json").stat().st_mode & 0o077 == 0


async def test_a_message_that_no_answer_can_be_made_of_is_refused(served: NodeProcess, tmp_path: Path) -> None:
    """Otherwise it would end the program, each time the program is started."""
    own = "1 / (message['body'] != 'Nothing')"
    async with (
        httpx2.AsyncClient(base_url=served.url, timeout=PATIENCE) as client,
        asyncio.timeout(PATIENCE),
        running(served, "inbox", tmp_path, own=own, ANSWERS="2") as process,
    ):
        assert process.stdout
        address = (await process.stdout.readline()).decode().removeprefix("write to ").strip()
        path = f"/api/v1/inboxes/{address}/messages?wait=30"
        told = [(await client.post(path, json={"body": body})).json() for body in ("Nothing", "Something")]
    assert [each["reply"] for each in told] == ["I cannot answer this.", "Read: Something"]


async def test_an_owner_whose_inbox_has_ended_is_told_how_to_get_another(served: NodeProcess, tmp_path: Path) -> None:
    async with httpx2.AsyncClient(base_url=served.url, timeout=PATIENCE) as client, asyncio.timeout(PATIENCE):
        inbox = (await client.post("/api/v1/inboxes")).json()
        owner = {"authorization": f"Bearer {inbox['inbox_token']}"}
        assert (await client.delete(f"/api/v1/inboxes/{inbox['address']}", headers=owner)).is_success
        (tmp_path / "inbox.json").write_text(json.dumps(inbox))
        async with running(served, "inbox", tmp_path) as process:
            said = (await process.stdout.read()).decode() if process.stdout else ""
    assert said.endswith("it was closed, or has ended. Delete inbox.json to open another one.\n")


async def test_an_owner_whose_answer_is_refused_refuses_the_message(served: NodeProcess, tmp_path: Path) -> None:
    """If the message stayed unsettled, its sender would wait in vain, and the message would come again at each start of
    the program.
    """
    async with (
        httpx2.AsyncClient(base_url=served.url, timeout=PATIENCE) as client,
        asyncio.timeout(PATIENCE),
        running(served, "inbox", tmp_path, ANSWERS="1") as process,
    ):
        assert process.stdout
        address = (await process.stdout.readline()).decode().removeprefix("write to ").strip()
        body = {"body": "x" * 16 * 1024}  # the recipe puts "Read: " before it, which makes the answer too long
        told = (await client.post(f"/api/v1/inboxes/{address}/messages?wait=30", json=body)).json()
    assert (told["status"], told["reply"]) == ("refused", "I cannot answer this.")


def test_configurations_of_mcp_clients_name_an_endpoint_that_answers(served: NodeProcess) -> None:
    configured = [json.loads(text) for language, text in code_of(served, "claude-mcp-config") if language == "json"]
    entries = [next(iter((each.get("mcpServers") or each["servers"]).values())) for each in configured]
    urls = {entry.get("url") or entry["args"][-1] for entry in entries}
    assert urls == {f"{served.url}/api/v1/mcp"}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    headers = {"accept": "application/json, text/event-stream"}
    assert httpx2.post(urls.pop(), json=ping, headers=headers, timeout=PATIENCE).json()["result"] == {}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_a_page_and_a_text(served: NodeProcess, name: str) -> None:
    page = httpx2.get(f"{served.url}/recipes/{name}", headers={"accept": "text/html"}, timeout=PATIENCE)
    assert page.headers["content-type"].startswith("text/html")
    assert "Accept" in page.headers["vary"]
    text = httpx2.get(f"{served.url}/recipes/{name}.md", timeout=PATIENCE).text
    assert page.text.count('<div class="code" data-copy>') == text.count("```") // 2
    assert text.partition("\n")[0].removeprefix("# ") in page.text
    assert "{{" not in text


def test_recipes_are_linked_and_unknown_ones_are_missing(served: NodeProcess) -> None:
    for path in ("/", "/llms.txt", "/sitemap.xml", "/recipes"):
        assert "/recipes" in httpx2.get(f"{served.url}{path}", timeout=PATIENCE).text
    assert "a command <code>relay</code>" in httpx2.get(f"{served.url}/recipes", timeout=PATIENCE).text
    assert httpx2.get(f"{served.url}/recipes/nothing", timeout=PATIENCE).status_code == 404
