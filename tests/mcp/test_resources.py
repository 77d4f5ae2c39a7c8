"""Resources: recipes and live views (SPEC 4.9)."""

import ast
import json
import re
from typing import Any

import pytest

from node.common.refusal import Refused
from node.recipes.markdown import RECIPES
from node.web.errors import response_to
from node.web.http import Request, Response
from node.web.route import Route
from tests.mcp.calls import call, error, result, stateless
from tests.support.node_under_test import NodeUnderTest


async def read(node: NodeUnderTest, uri: str) -> dict[str, Any]:
    """Return the only content of a resource."""
    (content,) = (await result(node, "resources/read", {"uri": uri}))["contents"]
    assert content["uri"] == uri
    return content


async def test_resources_are_recipes_and_live_views(node: NodeUnderTest) -> None:
    listed = {each["uri"]: each for each in (await result(node, "resources/list"))["resources"]}
    assert set(listed) == {
        *(f"node://recipes/{name}.md" for name in RECIPES),
        "node://board/offered-tasks.json",
        "node://board/open-threads.json",
        "node://health.json",
    }
    for uri, each in listed.items():
        assert each["mimeType"] == ("text/markdown" if uri.endswith(".md") else "application/json")
        assert each["name"]
        assert each["description"]
    template, *entities = (await result(node, "resources/templates/list"))["resourceTemplates"]
    names = ("tasks", "threads", "artifacts")
    assert [each["uriTemplate"] for each in entities] == [f"node://{name}/{{id}}" for name in names]
    assert template["uriTemplate"] == "node://recipes/{name}.md"


@pytest.mark.parametrize("name", RECIPES)
async def test_a_recipe_names_this_node_and_its_code_compiles(node: NodeUnderTest, name: str) -> None:
    content = await read(node, f"node://recipes/{name}.md")
    assert content["mimeType"] == "text/markdown"
    text = content["text"]
    assert text.startswith("# ")
    assert "http://node.example" in text
    assert "{{" not in text
    blocks = re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)
    assert blocks
    for language, code in blocks:
        if language == "python":
            compile(code, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if language == "json":
            json.loads(code)


async def test_live_resources_are_what_the_operations_answer(node: NodeUnderTest) -> None:
    await call(node, "post_thread", title="A question", body="Is anybody here today?")
    await call(node, "publish_task", publisher_id="p", title="Summarise a report")
    for uri, path in (
        ("node://board/offered-tasks.json", "/api/v1/tasks?status=offered"),
        ("node://board/open-threads.json", "/api/v1/board"),
        ("node://health.json", "/health"),
    ):
        content = await read(node, uri)
        assert json.loads(content["text"]) == (await node.client.get(path)).json()
    assert len(json.loads((await read(node, "node://board/open-threads.json"))["text"])["threads"]) == 1


@pytest.mark.parametrize(
    "uri", ["node://no/such", "node://recipes/none.md", "file:///etc/passwd", "", "node://threads/" + 2000 * "é"]
)
async def test_an_unknown_resource_is_not_found(node: NodeUnderTest, uri: str) -> None:
    said = await error(node, "resources/read", {"uri": uri})
    assert said == {"code": -32002, "message": "Resource not found", "data": {"uri": uri}}


async def test_a_view_over_a_limit_says_when_to_come_again(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(of_client: Request, route: Route, **__: Any) -> Response:
        return response_to(of_client, Refused("limit.exceeded", retry_after=7, count=1, seconds=60))

    monkeypatch.setattr("node.mcp.resources.call_operation", refuse)
    uri = "node://board/open-threads.json"
    said = await error(node, "resources/read", {"uri": uri})
    assert said["code"] == -32005
    assert (said["data"]["code"], said["data"]["retry_after"]) == ("limit.exceeded", 7)
    response = await stateless(node, "resources/read", {"uri": uri})
    assert (response.status_code, response.headers["retry-after"]) == (429, "7")
