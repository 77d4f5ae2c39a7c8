"""Documents are compressed for clients that take gzip, and revalidated for those that have them."""

import gzip

import httpx2
import pytest

from node.web.document import takes_gzip
from node.web.http import LONGEST_ACCEPT
from tests.support.node_under_test import NodeUnderTest


async def fetched(node: NodeUnderTest, path: str, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await node.client.get(path, headers={"accept-encoding": "identity", **named})


async def test_a_document_is_compressed_for_clients_that_take_gzip(node: NodeUnderTest) -> None:
    plain = await fetched(node, "/openapi.json")
    assert "content-encoding" not in plain.headers
    async with node.client.stream("GET", "/openapi.json", headers={"accept-encoding": "br, gzip;q=0.8"}) as packed:
        assert packed.headers["content-encoding"] == "gzip"
        raw = b"".join([chunk async for chunk in packed.aiter_raw()])
    assert len(raw) < len(plain.content) / 5
    assert gzip.decompress(raw) == plain.content
    assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"


async def test_each_form_is_revalidated_by_its_own_etag(node: NodeUnderTest) -> None:
    plain = (await fetched(node, "/llms.txt")).headers["etag"]
    packed = (await fetched(node, "/llms.txt", accept_encoding="gzip")).headers["etag"]
    assert plain != packed
    assert (await fetched(node, "/llms.txt", if_none_match=plain)).status_code == 304
    assert (await fetched(node, "/llms.txt", accept_encoding="gzip", if_none_match=packed)).status_code == 304
    assert (await fetched(node, "/llms.txt", if_none_match=packed)).status_code == 200
    assert (await fetched(node, "/llms.txt", if_none_match="*")).status_code == 304
    assert (await fetched(node, "/llms.txt", if_none_match=f'"another", W/{plain}')).status_code == 304


@pytest.mark.parametrize("path", ["/llms.txt", "/", "/.well-known/agent-card.json"])
async def test_whoever_wants_another_content_gets_none(node: NodeUnderTest, path: str) -> None:
    tag = (await fetched(node, path)).headers["etag"]
    for named in ('"another"', f"W/{tag}"):  # If-Match compares strongly (RFC 9110 §13.1.1)
        refused = await fetched(node, path, if_match=named)
        assert (refused.status_code, refused.headers["x-error-code"]) == (412, "content.other"), path
    for named in (tag, f'"another", {tag}', f"W/{tag}, {tag}", "*"):
        assert (await fetched(node, path, if_match=named)).status_code == 200, path
    assert (await fetched(node, path, if_match='"another"', if_none_match=tag)).status_code == 412


async def test_tags_may_be_in_several_headers(node: NodeUnderTest) -> None:
    tag = (await fetched(node, "/llms.txt")).headers["etag"]
    for name, status in (("if-none-match", 304), ("if-match", 200)):
        got = await node.client.get("/llms.txt", headers=[("accept-encoding", "identity"), (name, '"a"'), (name, tag)])
        assert got.status_code == status


@pytest.mark.parametrize(
    ("accepted", "taken"),
    [
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("br, gzip", True),
        (f"gzip{',' * LONGEST_ACCEPT}", True),
        (f"{',' * LONGEST_ACCEPT}gzip", False),
        ("gzip;q=0.5", True),
        ("gzip; q=0", False),
        ("gzip;q=0.000", False),
        ("*", True),
        ("*;q=0", False),
        ("gzip;q=0, *", False),
        ("identity", False),
        ("x-gzip-like", False),
    ],
)
def test_accept_encoding_says_whether_a_client_takes_gzip(accepted: str, taken: bool) -> None:
    assert takes_gzip(accepted) is taken
