"""Documents are compressed for clients that accept gzip, and revalidated for those that have them."""

import gzip

import httpx2
import pytest

from node.web.accept import MAX_ACCEPT_CHARACTERS
from node.web.document import takes_gzip
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
    for named in ('"another"', f"W/{tag}"):  # If-Match uses strong comparison (RFC 9110 §13.1.1)
        refused = await fetched(node, path, if_match=named)
        assert (refused.status_code, refused.headers["x-error-code"]) == (412, "content.other"), path
    for named in (tag, f'"another", {tag}', f"W/{tag}, {tag}", "*"):
        assert (await fetched(node, path, if_match=named)).status_code == 200, path
    assert (await fetched(node, path, if_match='"another"', if_none_match=tag)).status_code == 412


CARD = "/.well-known/agent-card.json"
OLD, NEW = "Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"if_modified_since": "{modified}"}, 304),
        ({"if_modified_since": NEW}, 304),
        ({"if_modified_since": OLD}, 200),
        ({"if_modified_since": "Sunday, 06-Nov-94 08:49:37 GMT"}, 200),
        ({"if_modified_since": "Fri Dec 31 23:59:59 9999"}, 304),
        ({"if_unmodified_since": "{modified}"}, 200),
        ({"if_unmodified_since": OLD}, 412),
        ({"if_unmodified_since": "Sun Nov  6 08:49:37 1994"}, 412),
        ({"if_unmodified_since": OLD, "if_modified_since": NEW}, 412),
        # Conditions on tags take precedence (RFC 9110 §13.2.2).
        ({"if_modified_since": NEW, "if_none_match": '"another"'}, 200),
        ({"if_modified_since": OLD, "if_none_match": "{tag}"}, 304),
        ({"if_unmodified_since": OLD, "if_match": "{tag}"}, 200),
        ({"if_unmodified_since": NEW, "if_match": '"another"'}, 412),
        ({"if_unmodified_since": NEW, "if_none_match": "{tag}"}, 304),
    ],
)
async def test_conditions_on_dates_count_where_there_is_a_date_and_no_tag(
    node: NodeUnderTest, headers: dict[str, str], status: int
) -> None:
    card = (await fetched(node, CARD)).headers
    sent = {name: value.format(modified=card["last-modified"], tag=card["etag"]) for name, value in headers.items()}
    answer = await fetched(node, CARD, **sent)
    assert answer.status_code == status
    assert answer.headers.get("x-error-code") == ("content.other" if status == 412 else None)
    if status == 304:
        assert (answer.content, answer.headers["last-modified"]) == (b"", card["last-modified"])


@pytest.mark.parametrize(
    "date",
    [
        "yesterday",
        f"{NEW}{' ' * 40}x",
        f"{NEW}, {NEW}",
        "1 Jan 99999999999 00:00:00 GMT",
        "1 Jan 2999 00:00:00 +99999999999999",
        "31 Feb 2999 00:00:00 GMT",
        "\xe9 Jan 2999",
    ],
)
async def test_what_is_no_date_is_no_condition(node: NodeUnderTest, date: str) -> None:
    for name in (b"if-modified-since", b"if-unmodified-since"):
        answer = await node.client.get(CARD, headers=[(name, date.encode("latin-1"))])
        assert answer.status_code == 200, name


async def test_a_document_without_a_date_has_no_conditions_on_dates(node: NodeUnderTest) -> None:
    answer = await fetched(node, "/llms.txt", if_modified_since=NEW, if_unmodified_since=OLD)
    assert answer.status_code == 200
    assert "last-modified" not in answer.headers


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
        (f"gzip{',' * MAX_ACCEPT_CHARACTERS}", True),
        (f"{',' * MAX_ACCEPT_CHARACTERS}gzip", False),
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
