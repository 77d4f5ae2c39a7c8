"""Recipes as pages, and as the Markdown from which the pages are made."""

import pytest

from tests.support.node_under_test import NodeUnderTest


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "text/html"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "text/html"),
        ("text/markdown", "text/markdown"),
        ("text/markdown, text/html;q=0.9, */*;q=0.1", "text/markdown"),
        ("text/markdown;q=0.1, text/html", "text/html"),
        ("text/markdown;q=0, */*", "text/html"),
    ],
)
async def test_a_recipe_has_the_form_that_is_wanted_most(node: NodeUnderTest, accept: str, kind: str) -> None:
    answer = await node.client.get("/recipes/worker", headers={"accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (200, f"{kind}; charset=utf-8")


@pytest.mark.parametrize("path", ["/recipes/nothing", "/recipes/nothing.md"])
async def test_an_unknown_recipe_has_the_page_of_a_failure(node: NodeUnderTest, path: str) -> None:
    answer = await node.client.get(path, headers={"accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "the list of recipes" in answer.text


async def test_both_forms_are_described(node: NodeUnderTest) -> None:
    described = (await node.client.get("/openapi.json")).json()["paths"]["/recipes/{name}"]["get"]
    assert set(described["responses"]["200"]["content"]) == {"text/html", "text/markdown"}
