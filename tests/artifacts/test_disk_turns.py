"""Fairness among the clients of the embedded store, which share the threads that access its files."""

import asyncio
from collections.abc import AsyncGenerator
from urllib.parse import urlsplit

import pytest

from node.artifacts.blobs.disk_app import FILES_OF_A_SITE
from node.artifacts.blobs.interface import CHUNK_BYTES
from node.common.folder_lock import locked
from node.web import waiting_places
from node.web.http import ASGIMessage
from tests.artifacts.blobs import BIG, DATA, Answer, BlobServer, body, call, grant_for
from tests.support.servers import eventually

UPLOADS = 64
"""More than asyncio's default number of threads."""


async def test_many_uploads_of_a_site_leave_others_their_turn(server: BlobServer) -> None:
    await server.put()

    async def upload(number: int) -> int:
        grant = grant_for(artifact_id=f"0199aaaa-0000-7000-8000-1{number:011x}")
        url = await server.store.upload_url(grant, 900)
        return (
            await server.client.put(url, content=DATA, headers={"content-type": "text/csv", "client": "a"})
        ).status_code

    with locked(server.store.directory, wait=True):  # while this lock is held, no upload makes progress
        uploads = [asyncio.create_task(upload(number)) for number in range(UPLOADS)]
        await eventually(lambda: len(server.files()) == 1 + FILES_OF_A_SITE)
        for _ in range(UPLOADS):
            assert (await server.get(client="b")).content == DATA
        assert len(server.files()) == 1 + FILES_OF_A_SITE
    assert await asyncio.gather(*uploads) == [200] * UPLOADS


async def test_however_many_requests_of_a_site_wait_each_gets_its_turn(server: BlobServer) -> None:
    await server.put()
    path = urlsplit(await server.store.content_url(grant_for(), None, 300)).path
    requests = (call(server.app, "GET", path, {"client": "a"}, body()) for _ in range(1_100))
    answers = await asyncio.gather(*requests)
    assert all(answer is not None and answer.status == 200 for answer in answers)


async def test_uploads_of_a_client_that_go_on_slowly_count_by_what_is_there_of_them(
    server: BlobServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise 800 uploads of 256 KiB from one /48, continued a byte at a time, could hold 245 MB of two processes.
    monkeypatch.setattr(waiting_places, "MAX_WAITING_PER_CLIENT", 10)
    goes_on = asyncio.Event()

    async def slow() -> AsyncGenerator[ASGIMessage]:
        half = 10 * waiting_places.WAITING_BYTES
        yield {"type": "http.request", "body": BIG[:half], "more_body": True}
        await goes_on.wait()
        yield {"type": "http.request", "body": BIG[half:], "more_body": False}

    async def upload(number: int, client: str) -> Answer | None:
        grant = grant_for(BIG, artifact_id=f"0199aaaa-0000-7000-8000-2{number:011x}")
        path = urlsplit(await server.store.upload_url(grant, 900)).path
        headers = {"content-type": "text/csv", "content-length": str(len(BIG)), "client": client}
        return await call(server.app, "PUT", path, headers, slow())

    first = asyncio.create_task(upload(1, "a"))
    await eventually(lambda: waiting_places.WAITING_BY_CLIENT["a"] == 10)
    refused = await upload(2, "a")
    assert refused is not None and (refused.status, refused.headers["x-error-code"]) == (429, "limit.waiting")
    other = asyncio.create_task(upload(3, "b"))
    await eventually(lambda: waiting_places.WAITING_BY_CLIENT["b"] == 10)
    goes_on.set()
    for answer in await asyncio.gather(first, other):
        assert answer is not None and answer.status == 200
    assert not waiting_places.WAITING_BY_CLIENT


async def test_of_an_upload_no_more_than_a_chunk_is_held_in_memory(server: BlobServer) -> None:
    held: list[int] = []

    async def pieces() -> AsyncGenerator[ASGIMessage]:
        for start in range(0, len(BIG), CHUNK_BYTES // 2):
            held.append(waiting_places.WAITING_BY_CLIENT["a"])
            yield {"type": "http.request", "body": BIG[start : start + CHUNK_BYTES // 2], "more_body": True}
        yield {"type": "http.request", "body": b"", "more_body": False}

    headers = {"content-type": "text/csv", "content-length": str(len(BIG)), "client": "a"}
    answer = await call(server.app, "PUT", await server.path(BIG), headers, pieces())
    assert answer is not None and answer.status == 200
    assert 0 < max(held) <= CHUNK_BYTES // waiting_places.WAITING_BYTES
