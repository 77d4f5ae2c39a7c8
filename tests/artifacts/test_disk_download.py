"""Downloads from the embedded store: whole, in part, and to clients that do not read."""

import asyncio
import socket
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import pytest

from tests.artifacts.blobs import BIG, DATA, ID, BlobServer, assert_refused, body, call, grant_for, holds_open, served
from tests.support.servers import eventually


async def test_what_was_uploaded_is_served_as_an_attachment_with_its_digest(server: BlobServer) -> None:
    assert (await server.put(BIG, BIG)).status_code == 200
    got = await server.get(BIG, "números.csv")
    assert (got.status_code, got.content) == (200, BIG)
    digest = grant_for(BIG).digest_sha256
    assert got.headers["etag"] == f'"{digest}"'
    assert got.headers["content-type"] == "text/csv"
    assert (
        got.headers["content-disposition"] == "attachment; filename=\"n_meros.csv\"; filename*=UTF-8''n%C3%BAmeros.csv"
    )
    assert got.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in got.headers["content-security-policy"]
    assert got.headers["repr-digest"].startswith("sha-256=:")
    assert await server.store.size(ID) == len(BIG)
    assert b"".join([chunk async for chunk in server.store.read(grant_for(BIG))]) == BIG


@pytest.mark.parametrize(
    ("asked", "status", "span"),
    [
        ("bytes=0-4", 206, (0, 5)),
        ("Bytes=0-4", 206, (0, 5)),
        ("bytes=5-", 206, (5, 22)),
        ("bytes=-3", 206, (19, 22)),
        ("bytes=-99", 206, (0, 22)),
        ("bytes=20-99", 206, (20, 22)),
        ("bytes=0-0,5-6", 200, (0, 22)),
        ("bytes=9-3", 200, (0, 22)),
        ("bytes=-", 200, (0, 22)),
        ("lines=1-2", 200, (0, 22)),
        ("bytes=22-", 416, None),
        ("bytes=-0", 416, None),
    ],
)
async def test_a_range_is_answered_as_rfc_9110_says(
    server: BlobServer, asked: str, status: int, span: tuple[int, int] | None
) -> None:
    await server.put()
    got = await server.get(range=asked)
    assert got.status_code == status
    if span is None:
        assert_refused(got, "blob.range")
        assert got.headers["content-range"] == "bytes */22"
        return
    assert got.content == DATA[slice(*span)]
    assert got.headers.get("content-range") == (f"bytes {span[0]}-{span[1] - 1}/22" if status == 206 else None)


async def test_a_download_is_resumed_only_if_it_is_still_the_same_content(server: BlobServer) -> None:
    await server.put()
    etag = (await server.get()).headers["etag"]
    assert (await server.get(range="bytes=5-", if_range=etag)).status_code == 206
    assert (await server.get(range="bytes=5-", if_range='"another"')).status_code == 200
    assert (await server.get(if_none_match=etag)).status_code == 304
    assert (await server.get(if_none_match='"another"')).status_code == 200
    assert (await server.get(range="bytes=5-", if_match=etag)).status_code == 206
    for other in ('"another"', f"W/{etag}"):
        assert_refused(await server.get(range="bytes=5-", if_match=other), "content.other")


async def test_bytes_that_are_deleted_once_they_are_found_are_missing(
    server: BlobServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await server.put()
    find = server.store.open

    def find_and_lose(artifact_id: str) -> BinaryIO:
        file = find(artifact_id)
        asyncio.run(server.store.delete(artifact_id))
        return file

    monkeypatch.setattr(server.store, "open", find_and_lose)
    assert_refused(await server.get(), "blob.missing")


async def test_conditions_mean_nothing_where_the_content_is_gone(server: BlobServer) -> None:
    await server.put()
    await server.store.delete(ID)
    assert_refused(await server.get(if_none_match="*"), "blob.missing")
    assert_refused(await server.get(if_match='"another"'), "blob.missing")


async def test_head_answers_as_get_without_the_content(server: BlobServer) -> None:
    await server.put()
    url = await server.store.content_url(grant_for(), None, 300)
    head, got = await server.client.head(url), await server.client.get(url)
    assert head.content == b""
    assert {**head.headers, "date": ""} == {**got.headers, "date": ""}


@pytest.mark.parametrize("asked", ["bytes=0-4", "bytes=22-"])
async def test_head_knows_no_ranges(server: BlobServer, asked: str) -> None:
    await server.put()
    head = await server.client.head(await server.store.content_url(grant_for(), None, 300), headers={"range": asked})
    assert head.status_code == 200
    assert head.headers["content-length"] == "22"


async def test_a_reader_that_takes_nothing_is_given_up(tmp_path: Path) -> None:
    async with served(BlobServer(tmp_path, send_stall=0.2)) as server:
        big = BIG * 16  # more than fits into the socket buffers between us and Granian
        await server.put(big, big)
        path = urlsplit(await server.store.content_url(grant_for(big), None, 300)).path
        with socket.create_connection(("127.0.0.1", server.port)) as reader:
            reader.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await eventually(lambda: holds_open(ID))
            await eventually(lambda: not holds_open(ID))
            with reader.makefile("rb") as stream:
                assert len(await asyncio.to_thread(stream.read)) < len(big)


async def test_nothing_more_is_read_for_a_reader_that_has_left(server: BlobServer) -> None:
    await server.put(BIG, BIG)
    path = urlsplit(await server.store.content_url(grant_for(BIG), None, 300)).path
    answer = await call(server.app, "GET", path, {}, body())
    assert answer is not None
    assert len(answer.body) < len(BIG)
