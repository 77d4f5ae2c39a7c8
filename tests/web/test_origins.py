"""Pages in a browser: any page may call a public node, but only pages that the operator trusts may call a
private one.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import msgspec
import pytest

from node.config import AllowedOrigins, ConfigError, Proxies, load
from tests.support.node_under_test import NodeUnderTest, running, settings_for
from tests.support.servers import Cluster, RedisServer

FOREIGN = {"origin": "https://evil.example"}
APP = "https://app.example"
TEXT = "Hello, is anybody there who can read this?"
SIMPLE = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
"""Media types that a page may POST to another site without a preflight."""


@asynccontextmanager
async def reached_by(
    redis: RedisServer | Cluster, origins: str, base_url: str = "http://node.example", **given: Any
) -> AsyncGenerator[NodeUnderTest]:
    """A node with that setting, called under its own name."""
    allowed = AllowedOrigins.parse(origins) if origins else AllowedOrigins(given=False)
    settings = msgspec.structs.replace(settings_for(redis.url, allowed_origins=allowed, **given), base_url=base_url)
    async with running(settings) as node:
        node.client.base_url = httpx2.URL(base_url or "http://127.0.0.1:8000")
        yield node


def cors(response: httpx2.Response) -> list[str]:
    return response.headers.get_list("access-control-allow-origin")


async def test_a_public_node_is_open_to_all_pages(node: NodeUnderTest) -> None:
    response = await node.client.post("/api/v1/relay", json={"message": TEXT}, headers=FOREIGN)
    assert (response.status_code, cors(response)) == (200, ["*"])


async def test_on_a_node_that_is_not_public_a_foreign_page_can_do_nothing(
    empty_redis: RedisServer | Cluster,
) -> None:
    """Otherwise any page visited by somebody on the intranet could post to the node and read it."""
    async with reached_by(empty_redis, "none") as node:
        answers = [
            *[
                await node.client.post(path, content=TEXT.encode(), headers=FOREIGN | {"content-type": kind})
                for kind in SIMPLE
                for path in ("/api/v1/relay", "/api/v1/wire/stream", "/api/v1/sessions", "/nowhere")
            ],
            await node.client.post("/api/v1/tasks", json={"publisher_id": "p", "title": "A task"}, headers=FOREIGN),
            await node.client.get("/api/v1/board", headers=FOREIGN),
            await node.client.get("/", headers=FOREIGN),
            await node.client.put("/blobs/x", content=b"x", headers=FOREIGN),
            await node.client.options("/api/v1/relay", headers=FOREIGN | {"access-control-request-method": "POST"}),
            await node.client.post("/api/v1/relay", content=TEXT.encode(), headers={"origin": "null"}),
        ]
        for response in answers:
            assert (response.status_code, response.headers["x-error-code"]) == (403, "origin.refused")
            assert list(response.json()) == ["error"]
            assert cors(response) == []
        assert (await node.client.get("/api/v1/board")).json()["total"] == 0


async def test_programs_go_on_as_before_and_no_answer_is_open_to_pages(empty_redis: RedisServer | Cluster) -> None:
    async with reached_by(empty_redis, "none") as node:
        posted = await node.client.post("/api/v1/board", json={"title": "A question", "body": TEXT})
        answers = [
            posted,
            await node.client.get("/api/v1/board"),
            await node.client.get("/llms.txt"),
            await node.client.get("/nowhere"),
            await node.client.get("/blobs/x"),
        ]
        assert [answer.status_code for answer in answers] == [201, 200, 200, 404, 403]
        for answer in answers:
            assert cors(answer) == []
            assert "Origin" in ", ".join(answer.headers.get_list("vary"))


@pytest.mark.parametrize("origin", ["http://node.example", "https://node.example:8443", "http://localhost:3000", APP])
async def test_its_own_pages_those_of_this_machine_and_those_listed_may_call(
    empty_redis: RedisServer | Cluster, origin: str
) -> None:
    async with reached_by(empty_redis, f"{APP},https://other.example:8443") as node:
        asked = await node.client.options(
            "/api/v1/relay", headers={"origin": origin, "access-control-request-method": "POST"}
        )
        assert (asked.status_code, cors(asked)) == (204, [origin])
        assert "Idempotency-Key" in asked.headers["access-control-allow-headers"]
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        for response in (
            await node.client.post("/api/v1/relay", json={"message": TEXT}, headers={"origin": origin}),
            await node.client.get("/api/v1/board", headers={"origin": origin}),
            await node.client.post("/api/v1/mcp", json=ping, headers={"origin": origin}),
        ):
            assert (response.status_code, cors(response)) == (200, [origin])
            assert "Retry-After" in response.headers["access-control-expose-headers"]
            assert "access-control-allow-credentials" not in response.headers


@pytest.mark.parametrize("origin", [f"{APP}.evil.example", f"{APP}:8443", "http://app.example", "http://["])
async def test_an_origin_is_listed_as_a_whole(empty_redis: RedisServer | Cluster, origin: str) -> None:
    async with reached_by(empty_redis, APP) as node:
        response = await node.client.get("/api/v1/board", headers={"origin": origin})
        assert (response.status_code, cors(response)) == (403, [])


async def test_a_page_without_a_host_is_told_so(empty_redis: RedisServer | Cluster) -> None:
    async with reached_by(empty_redis, "none") as node:
        request = node.client.build_request("GET", "/api/v1/board", headers=FOREIGN)
        del request.headers["host"]
        response = await node.client.send(request)
        assert (response.status_code, response.headers["x-error-code"]) == (400, "host.invalid")


async def test_its_documents_do_not_promise_what_is_refused(empty_redis: RedisServer | Cluster) -> None:
    async with reached_by(empty_redis, "none") as node:
        text = (await node.client.get("/llms-full.txt")).text
        assert "In a browser, only pages of this node" in text
        assert "allowed from everywhere" not in text


async def test_a_protocol_says_so_in_its_own_form(empty_redis: RedisServer | Cluster) -> None:
    async with reached_by(empty_redis, "none") as node:
        a2a = await node.client.post("/api/v1/message:send", json={}, headers=FOREIGN)
        assert (a2a.status_code, a2a.json()["error"]["status"]) == (403, "PERMISSION_DENIED")
        mcp = await node.client.post("/api/v1/mcp", json={}, headers=FOREIGN)
        assert (mcp.status_code, mcp.json()["error"]["code"]) == (403, -32600)


async def test_under_another_name_it_answers_nothing_but_health(empty_redis: RedisServer | Cluster) -> None:
    """A page that has rebound its own name to the node sends no Origin when it reads."""
    async with reached_by(empty_redis, "none") as node:
        refused = await node.client.get("/api/v1/board", headers={"host": "evil.example:8000"})
        assert (refused.status_code, refused.headers["x-error-code"]) == (421, "host.foreign")
        for host in ("node.example:80", "localhost:8000", "127.0.0.1", "[::1]:8000", "192.168.1.5:8000"):
            assert (await node.client.get("/api/v1/board", headers={"host": host})).status_code == 200
        assert (await node.client.get("/ready", headers={"host": "ready"})).status_code == 200


async def test_its_own_pages_may_call_under_any_of_its_addresses(empty_redis: RedisServer | Cluster) -> None:
    async with reached_by(empty_redis, "none") as node:
        for origin, status in (("http://192.168.1.5:8000", 200), ("http://192.168.1.6:8000", 403)):
            headers = {"host": "192.168.1.5:8000", "origin": origin}
            assert (await node.client.get("/api/v1/board", headers=headers)).status_code == status


@pytest.mark.parametrize(
    "base_url", ["", "http://localhost:8000", "http://127.0.0.2:8000", "http://[::ffff:127.0.0.1]:8000"]
)
async def test_a_node_that_only_this_machine_reaches_is_closed_to_foreign_pages_by_default(
    empty_redis: RedisServer | Cluster, base_url: str
) -> None:
    async with reached_by(empty_redis, "", base_url) as node:
        refused = await node.client.post("/api/v1/relay", content=TEXT.encode(), headers=FOREIGN)
        assert (refused.status_code, cors(refused)) == (403, [])
        rebound = FOREIGN | {"host": "evil.example"}
        assert (await node.client.post("/api/v1/relay", content=TEXT.encode(), headers=rebound)).status_code == 421
        own = {"origin": "http://127.0.0.1:8000"}
        assert (await node.client.post("/api/v1/relay", json={"message": TEXT}, headers=own)).status_code == 200
        # A page under a rebound name reads without Origin, but its browser sends Accept-Language.
        page = {"host": "evil.example:8000", "accept-language": "en"}
        for path in ("/api/v1/board", "/board"):
            assert (await node.client.get(path, headers=page)).status_code == 421
        here = {"host": "localhost:8000", "accept-language": "en"}
        for headers in (here, here | {"origin": ""}):
            assert (await node.client.get("/board", headers=headers)).status_code == 200
        # Somebody may have put a proxy in front of the node without telling the node.
        assert (await node.client.get("/api/v1/board", headers={"host": "relay.example"})).status_code == 200


@pytest.mark.parametrize(
    ("origins", "base_url", "given"),
    [
        ("*", "", {}),
        ("", "https://relay.example", {}),
        ("", "", {"host": "0.0.0.0"}),
        ("", "", {"trusted_proxies": Proxies.parse("127.0.0.1")}),
    ],
)
async def test_a_node_that_others_reach_is_open_unless_its_operator_closes_it(
    empty_redis: RedisServer | Cluster, origins: str, base_url: str, given: dict[str, Any]
) -> None:
    async with reached_by(empty_redis, origins, base_url, **given) as node:
        response = await node.client.get("/api/v1/board", headers=FOREIGN)
        assert (response.status_code, cors(response)) == (200, ["*"])


@pytest.mark.parametrize("text", ["app.example", "https://app.example/", "https://app.example/page", "", " ", "*,none"])
def test_what_is_no_origin_is_refused_at_start(text: str) -> None:
    with pytest.raises(ConfigError, match="such as https://app"):
        load({"RELAY_ALLOWED_ORIGINS": f"{APP},{text}"})


@pytest.mark.parametrize("text", ["*", "none", APP, f"{APP},http://10.0.0.1:3000"])
def test_the_setting_is_written_as_it_is_read(text: str) -> None:
    assert str(load({"RELAY_ALLOWED_ORIGINS": text}).allowed_origins) == text
