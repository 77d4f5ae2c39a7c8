"""Where MCP clients find this server: the card and the catalogue."""

import re

import msgspec
import pytest

from tests.mcp.calls import result
from tests.support.node_under_test import NodeUnderTest, running, settings_for
from tests.support.servers import Cluster, RedisServer

CARDS = ("/.well-known/mcp.json", "/.well-known/mcp/server-card.json", "/api/v1/mcp/server-card")


async def test_the_card_is_the_same_everywhere(node: NodeUnderTest) -> None:
    first, second, third = [await node.client.get(path) for path in CARDS]
    assert first.content == second.content == third.content
    assert first.headers["content-type"] == second.headers["content-type"] == "application/json"
    assert third.headers["content-type"] == "application/mcp-server-card+json"


async def test_the_card_is_valid_under_the_draft(node: NodeUnderTest) -> None:
    card = (await node.client.get(CARDS[0])).json()
    assert card["$schema"] == "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", card["name"])
    assert card["name"] == "example.node/relay-node"
    assert 0 < len(card["description"]) <= 100
    assert card["version"] == "1.0.0"
    http, sse = card["remotes"]
    assert (http["type"], http["url"]) == ("streamable-http", "http://node.example/api/v1/mcp")
    assert (sse["type"], sse["url"]) == ("sse", "http://node.example/mcp/sse")
    assert "2025-03-26" in http["supportedProtocolVersions"]
    assert "2026-07-28" in http["supportedProtocolVersions"]
    assert "2026-07-28" not in sse["supportedProtocolVersions"]
    assert card["protocolVersion"] == "2025-03-26"
    assert card["authentication"] == {"required": False, "schemes": []}


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        ("http://127.0.0.1:8000", "localhost/relay-node"),
        ("http://[::1]:8000", "localhost/relay-node"),
        ("https://node-1.xn--p1ai", "xn--p1ai.node-1/relay-node"),
    ],
)
async def test_the_name_is_made_of_the_host_even_if_that_is_an_address(
    empty_redis: RedisServer | Cluster, base_url: str, name: str
) -> None:
    async with running(msgspec.structs.replace(settings_for(empty_redis.url), base_url=base_url)) as node:
        card = (await node.client.get(CARDS[0])).json()
        assert (card["name"], card["websiteUrl"]) == (name, f"{base_url}/")


async def test_the_card_lists_what_the_server_lists(node: NodeUnderTest) -> None:
    card = (await node.client.get(CARDS[0])).json()
    assert card["tools"] == (await result(node, "tools/list"))["tools"]
    assert card["prompts"] == (await result(node, "prompts/list"))["prompts"]
    assert card["resources"] == (await result(node, "resources/list"))["resources"]
    assert card["resourceTemplates"] == (await result(node, "resources/templates/list"))["resourceTemplates"]


async def test_the_catalogue_leads_to_the_card(node: NodeUnderTest) -> None:
    response = await node.client.get("/.well-known/ai-catalog.json")
    assert response.headers["content-type"] == "application/ai-catalog+json"
    (entry,) = response.json()["entries"]
    assert entry["identifier"] == "urn:air:node.example:mcp:relay-node"
    assert (await node.client.get(entry["url"])).headers["content-type"] == entry["type"]


async def test_the_resources_lead_to_what_they_say(node: NodeUnderTest) -> None:
    manifest = (await node.client.get("/.well-known/ard.json")).json()
    assert {"specVersion", "host", "entries"} == manifest.keys()
    for entry in manifest["entries"]:
        assert re.fullmatch(r"urn:air:node\.example:[a-z]+:relay-node", entry["identifier"])
        assert entry["displayName"]
        assert 2 <= len(entry["representativeQueries"]) <= 5
        found = await node.client.get(entry["url"])
        assert found.status_code == 200
        assert found.headers["content-type"] in (entry["type"], "application/json")
    assert '<link rel="ard" type="application/json" href="/.well-known/ard.json">' in (await node.client.get("/")).text


@pytest.mark.parametrize("path", CARDS)
async def test_pages_may_read_the_card_and_keep_it(node: NodeUnderTest, path: str) -> None:
    response = await node.client.get(path, headers={"origin": "https://directory.example"})
    assert response.headers.get_list("access-control-allow-origin") == ["*"]
    assert response.headers["access-control-allow-methods"] == "GET"
    assert response.headers["cache-control"] == "public, max-age=3600"
    again = await node.client.get(path, headers={"if-none-match": response.headers["etag"]})
    assert again.status_code == 304
