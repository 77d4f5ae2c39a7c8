"""Static files can be kept for ever, because their names change with them."""

import re

import pytest

from node.site.assets import ASSETS, STATIC
from tests.support.lone_request import lone_request
from tests.support.node_under_test import NodeUnderTest

FILES = [path.name for path in STATIC.iterdir() if path.suffix != ".LICENSE"]


@pytest.mark.parametrize("name", FILES)
async def test_a_file_is_kept_for_ever_under_its_digest(node: NodeUnderTest, name: str) -> None:
    answer = await node.client.get(ASSETS.url(name))
    assert answer.status_code == 200
    assert "immutable" in answer.headers["cache-control"]
    again = await node.client.get(ASSETS.url(name), headers={"if-none-match": answer.headers["etag"]})
    assert again.status_code == 304


async def test_a_digest_of_another_version_gets_the_present_file_for_now(node: NodeUnderTest) -> None:
    present = await node.client.get(ASSETS.url("site.css"))
    answer = await node.client.get("/static/site.0123456789ab.css")
    assert answer.content == present.content
    assert answer.headers["cache-control"] == "no-cache"


async def test_it_is_compressed_once_for_all_who_ask_for_another_digest() -> None:
    """Compressing it for each of them would take 2 ms, which no limit counts."""
    scope = {"method": "GET", "path": "", "headers": [(b"accept-encoding", b"gzip")]}
    bodies: list[bytes] = []
    for digest in ("0123456789ab", "ba9876543210"):
        request = lone_request(scope)
        request.params["name"] = f"site.{digest}.css"
        bodies.append((await ASSETS.send(request)).body)
    assert bodies[0] is bodies[1]


@pytest.mark.parametrize("name", ["nothing.js", "site", "..%2f..%2fapp.py", "archivo.LICENSE", ""])
async def test_nothing_else_is_served(node: NodeUnderTest, name: str) -> None:
    assert (await node.client.get(f"/static/{name}")).status_code == 404


async def test_the_style_refers_to_files_by_their_digest(node: NodeUnderTest) -> None:
    style = (await node.client.get(ASSETS.url("site.css"))).text
    (font,) = re.findall(r'url\("([^"]+)"\)', style)
    assert f"/static/{font}" == ASSETS.url("archivo.woff2")


def test_every_font_comes_with_its_licence() -> None:
    for font in STATIC.glob("*.woff2"):
        assert "SIL OPEN FONT LICENSE" in font.with_suffix(".LICENSE").read_text()


async def test_a_first_visit_weighs_less_than_60_kilobytes(node: NodeUnderTest) -> None:
    """Page, style, script, font and icon together, as transferred."""
    weight = 0
    for path in ("/", ASSETS.url("site.css"), ASSETS.url("site.js"), ASSETS.url("archivo.woff2"), "/favicon.svg"):
        async with node.client.stream("GET", path, headers={"accept-encoding": "gzip"}) as answer:
            weight += len(b"".join([chunk async for chunk in answer.aiter_raw()]))
    assert weight < 60_000
