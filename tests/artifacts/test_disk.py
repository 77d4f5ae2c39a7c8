"""Uploads to the embedded store: what a URL accepts, and that a refused upload leaves nothing behind."""

import asyncio
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from node.artifacts.blobs.disk import STARTING_SECONDS, DiskStore
from node.artifacts.blobs.interface import BlobMissing, BlobUnavailable
from node.artifacts.blobs.upload import partial_file
from node.common.refusal import Refused
from node.web.errors import CATALOGUE
from node.web.http import ASGIMessage
from tests.artifacts.blobs import (
    BIG,
    DATA,
    ID,
    SECRET,
    BlobServer,
    assert_refused,
    body,
    call,
    grant_for,
    headers_for,
    served,
)
from tests.support.servers import PATIENCE, eventually

REPOSITORY = Path(__file__).parents[2]


async def test_an_upload_url_works_once(server: BlobServer) -> None:
    assert (await server.put()).status_code == 200
    assert_refused(await server.put(), "blob.uploaded")
    assert (await server.get()).content == DATA


async def test_other_users_of_the_machine_can_read_nothing(server: BlobServer) -> None:
    assert (await server.put()).status_code == 200
    await server.store.delete("an-id-without-bytes")
    made = list(server.store.directory.rglob("*"))
    assert len(made) == 4
    assert [path for path in made if path.stat().st_mode & 0o077] == []


async def test_other_bytes_leave_nothing_and_the_url_still_takes_the_right_ones(server: BlobServer) -> None:
    assert_refused(await server.put(BIG[:-1] + b"!", BIG), "blob.digest")
    assert server.files() == []
    assert (await server.put(BIG, BIG)).status_code == 200


async def test_nothing_is_left_of_other_bytes_that_the_node_itself_writes(server: BlobServer) -> None:
    with pytest.raises(Refused, match=r"blob\.digest"):
        await server.store.write(grant_for(), DATA[:-1] + b"!")
    assert server.files() == []


async def test_bytes_of_which_some_are_missing_are_not_given_as_all(server: BlobServer) -> None:
    await server.store.write(grant_for(), DATA)
    os.truncate(server.store.path(ID), len(DATA) - 1)
    with pytest.raises(BlobUnavailable):
        _ = [chunk async for chunk in server.store.read(grant_for())]


@pytest.mark.parametrize("content", [DATA + b"x", DATA[:-1], b""])
async def test_another_number_of_bytes_is_refused_before_they_are_read(server: BlobServer, content: bytes) -> None:
    assert_refused(await server.put(content), "blob.size")
    assert server.files() == []


async def test_a_body_of_unknown_length_is_refused(server: BlobServer) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield DATA

    url = await server.store.upload_url(grant_for(), 900)
    assert_refused(await server.client.put(url, content=chunks()), "blob.length_required")


@pytest.mark.parametrize("media_type", ["text/html", "text/csv; charset=utf-8", "text/csvx", "octet-stream"])
async def test_another_type_is_refused(server: BlobServer, media_type: str) -> None:
    assert_refused(await server.put(content_type=media_type), "blob.type")
    assert server.files() == []


async def test_the_same_type_may_be_spelled_otherwise(server: BlobServer) -> None:
    assert (await server.put(content_type="Text/CSV")).status_code == 200


async def test_raw_bytes_without_a_type_are_taken_as_the_promised_type(server: BlobServer) -> None:
    url = await server.store.upload_url(grant_for(), 900)
    assert (await server.client.put(url, content=DATA)).status_code == 200
    assert (await server.get()).headers["content-type"] == "text/csv"


@pytest.mark.parametrize("media_type", ["", "application/octet-stream", "Application/Octet-Stream"])
async def test_a_type_that_only_says_bytes_is_as_none(server: BlobServer, media_type: str) -> None:
    assert (await server.put(content_type=media_type)).status_code == 200
    assert (await server.get()).headers["content-type"] == "text/csv"


async def test_an_expired_url_is_refused(server: BlobServer) -> None:
    grant = grant_for()
    assert_refused(await server.client.put(await server.store.upload_url(grant, -1), content=DATA), "blob.expired")
    assert_refused(await server.client.get(await server.store.content_url(grant, None, -1)), "blob.expired")


async def test_a_changed_url_is_refused(server: BlobServer) -> None:
    url = await server.store.upload_url(grant_for(), 900)
    for other in (url[:-1] + ("A" if url[-1] != "A" else "B"), url + "A", url.rpartition("/")[0] + "/" + ID):
        assert_refused(await server.client.put(other, content=DATA), "blob.forged")


async def test_the_url_for_one_direction_does_not_serve_the_other(server: BlobServer) -> None:
    up, down = await server.store.upload_url(grant_for(), 900), await server.store.content_url(grant_for(), None, 300)
    for method, url, allowed in (
        ("GET", up, "PUT, OPTIONS"),
        ("PUT", down, "GET, HEAD, OPTIONS"),
        ("DELETE", down, "GET, HEAD, OPTIONS"),
    ):
        answer = await server.client.request(method, url)
        assert_refused(answer, "blob.method", allowed=allowed)
        assert answer.headers["allow"] == allowed


async def test_a_browser_may_use_the_url_from_any_page(server: BlobServer) -> None:
    answer = await server.client.options(await server.store.upload_url(grant_for(), 900))
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (204, "*")
    assert "PUT" in answer.headers["access-control-allow-methods"]


async def test_no_upload_starts_that_would_touch_the_reserve(tmp_path: Path) -> None:
    async with served(BlobServer(tmp_path, reserve=1 << 60)) as server:
        assert await server.store.free_bytes() == 0
        assert_refused(await server.put(), "blob.full")
        assert server.files() == []


@contextmanager
def files_no_larger_than(size: int) -> Generator[None]:
    """Make the kernel refuse a write beyond this size, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_client_that_asks_first_is_told_of_a_disk_without_room_before_it_sends(server: BlobServer) -> None:
    async def unread() -> AsyncIterator[ASGIMessage]:
        raise AssertionError("the body was read")
        yield {}

    with files_no_larger_than(len(BIG) // 2):
        headers = headers_for(BIG) | {"expect": "100-continue"}
        answer = await call(server.app, "PUT", await server.path(BIG), headers, unread())
    assert_refused(answer, "blob.full")
    assert server.files() == []
    assert (await server.put(BIG, BIG)).status_code == 200


async def test_a_disk_that_fills_up_half_way_leaves_nothing(server: BlobServer) -> None:
    half = len(BIG) // 2

    async def filling() -> AsyncIterator[ASGIMessage]:
        yield {"type": "http.request", "body": BIG[:half], "more_body": True}
        with files_no_larger_than(half):
            yield {"type": "http.request", "body": BIG[half:], "more_body": False}

    answer = await call(server.app, "PUT", await server.path(BIG), headers_for(BIG), filling())
    assert_refused(answer, "blob.full")
    assert server.files() == []
    assert (await server.put(BIG, BIG)).status_code == 200


async def test_a_disk_that_cannot_be_written_is_unavailable_not_an_error_of_the_node(server: BlobServer) -> None:
    server.store.directory.write_bytes(b"not a directory")
    answer = await server.put()
    assert_refused(answer, "blob.unavailable")
    assert answer.headers["retry-after"] == "5"
    with pytest.raises(BlobUnavailable):
        await server.store.check()


async def begun(server: BlobServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection, and send the head and half of the body of an upload of BIG."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    headers = [": ".join(line) for line in headers_for(BIG).items()]
    lines = [f"PUT {await server.path(BIG)} HTTP/1.1", "Host: x", *headers]
    writer.write("\r\n".join([*lines, "", ""]).encode() + BIG[: len(BIG) // 2])
    await writer.drain()
    return reader, writer


async def test_an_upload_without_progress_ends_and_its_connection_closes(tmp_path: Path) -> None:
    async with served(BlobServer(tmp_path, stall=0.2)) as server:
        reader, writer = await begun(server)
        answer = await asyncio.wait_for(reader.read(), PATIENCE)
        assert answer.startswith(b"HTTP/1.1 408") and CATALOGUE["blob.stalled"].sentence.encode() in answer
        assert server.files() == []
        writer.close()


async def test_a_client_that_goes_away_leaves_nothing(server: BlobServer) -> None:
    _, writer = await begun(server)
    await eventually(lambda: server.files() == [f"{ID}.part"])
    writer.close()
    await eventually(lambda: server.files() == [])


async def test_more_bytes_than_announced_are_never_stored(server: BlobServer) -> None:
    answer = await call(server.app, "PUT", await server.path(), headers_for(DATA), body(DATA, b"more"))
    assert_refused(answer, "blob.size")
    assert server.files() == []


async def test_of_two_uploads_at_once_one_is_told_to_wait(server: BlobServer) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[ASGIMessage]:
        started.set()
        await go_on.wait()
        yield {"type": "http.request", "body": DATA, "more_body": False}

    first = asyncio.create_task(
        call(server.app, "PUT", await server.path(), headers_for(DATA), slow()),
    )
    await started.wait()
    assert_refused(await server.put(), "blob.busy")
    go_on.set()
    answer = await first
    assert answer is not None and answer.status == 200
    assert (await server.get()).content == DATA


async def test_a_cancelled_request_leaves_nothing_and_lets_go_of_the_id(server: BlobServer) -> None:
    started = asyncio.Event()

    async def endless() -> AsyncIterator[ASGIMessage]:
        while True:
            started.set()
            yield {"type": "http.request", "body": b"x", "more_body": True}
            await asyncio.sleep(0)

    headers = headers_for(BIG)
    upload = asyncio.create_task(call(server.app, "PUT", await server.path(BIG), headers, endless()))
    await started.wait()
    upload.cancel()
    await asyncio.wait([upload])
    assert upload.cancelled() and server.files() == []
    assert (await server.put(BIG, BIG)).status_code == 200


async def test_a_deleted_artifact_is_gone_and_its_url_takes_no_second_upload(server: BlobServer) -> None:
    await server.put()
    await server.store.delete(ID)
    assert_refused(await server.get(), "blob.missing")
    assert_refused(await server.put(), "blob.gone")
    assert await server.store.size(ID) is None
    with pytest.raises(BlobMissing):
        await anext(server.store.read(grant_for()))
    await server.store.delete(ID)


async def test_what_a_process_that_was_killed_has_deleted_half_way_is_deleted_again(
    server: BlobServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second deletion returns normally, so the bytes are given back to the quotas."""

    class Killed(BaseException): ...

    def killed(*_: object) -> None:
        raise Killed

    await server.put()
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("node.artifacts.blobs.disk.os.truncate", killed)
        await server.store.delete(ID)
    await server.store.delete(ID)
    (mark,) = server.store.directory.rglob("*.gone")
    assert mark.stat().st_size == 0


async def test_an_artifact_deleted_while_it_is_uploaded_does_not_come_back(server: BlobServer) -> None:
    async def deleted_half_way() -> AsyncIterator[ASGIMessage]:
        yield {"type": "http.request", "body": DATA[:5], "more_body": True}
        await server.store.delete(ID)
        yield {"type": "http.request", "body": DATA[5:], "more_body": False}

    headers = headers_for(DATA)
    assert_refused(await call(server.app, "PUT", await server.path(), headers, deleted_half_way()), "blob.gone")
    assert await server.store.size(ID) is None


@pytest.mark.parametrize("before", [0, 1])
async def test_an_upload_whose_process_is_killed_at_its_end_leaves_nothing_of_a_deleted_artifact(
    server: BlobServer, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """The upload renames its file before one of the two files is removed, and no longer looks for the mark."""
    final = server.store.path(ID)
    final.parent.mkdir(parents=True)
    partial_file(final).write_bytes(DATA)
    unlink, removed = Path.unlink, list[Path]()

    def after_a_rename(path: Path, missing_ok: bool = False) -> None:
        if len(removed) == before:
            with suppress(FileNotFoundError):
                partial_file(final).rename(final)
        removed.append(path)
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", after_a_rename)
    await server.store.delete(ID)
    assert set(removed) == {final, partial_file(final)}
    assert server.files() == [f"{ID}.gone"]


WRITER = """
import sys, time
from pathlib import Path
from tests.artifacts.blobs import grant_for, SECRET
from node.artifacts.blobs.disk import DiskStore
part = DiskStore(Path(sys.argv[1]), "http://x", SECRET, 0).new_upload(grant_for())
part.start(); part.write(b"id,")
print("writing", flush=True)
time.sleep(60)
"""


def left_alone(server: BlobServer) -> None:
    """Make the upload look as if nobody had written to it for some time."""
    long_ago = time.time() - 2 * STARTING_SECONDS
    os.utime(partial_file(server.store.path(ID)), (long_ago, long_ago))


async def test_an_upload_that_begins_while_others_are_swept_goes_on(server: BlobServer) -> None:
    """The sweep must not lock a file that its writer has just created, or the upload would be refused as busy."""
    made = partial_file(server.store.path(ID))
    made.parent.mkdir(parents=True)
    made.touch(0o600)
    await server.store.sweep()
    assert server.files() == [f"{ID}.part"]
    left_alone(server)
    await server.store.sweep()
    assert server.files() == []


async def test_what_a_killed_writer_left_is_swept_and_a_living_ones_upload_is_not(server: BlobServer) -> None:
    command = [sys.executable, "-c", WRITER, str(server.store.directory)]
    writer = await asyncio.create_subprocess_exec(*command, cwd=REPOSITORY, stdout=asyncio.subprocess.PIPE)
    assert writer.stdout is not None and await writer.stdout.readline() == b"writing\n"
    await server.store.sweep()
    assert_refused(await server.put(), "blob.busy")
    writer.kill()
    await writer.wait()
    assert server.files() == [f"{ID}.part"]
    left_alone(server)
    await server.store.sweep()
    assert server.files() == []
    assert (await server.put()).status_code == 200


async def test_an_upload_may_follow_that_of_a_killed_writer_without_a_sweep(server: BlobServer) -> None:
    left = partial_file(server.store.path(ID))
    left.parent.mkdir(parents=True)
    left.write_bytes(BIG)
    assert (await server.put()).status_code == 200
    assert (await server.get()).content == DATA
    assert server.files() == [ID]


async def test_a_deleted_id_is_forgotten_once_no_url_for_it_can_be_left(server: BlobServer) -> None:
    await server.store.delete(ID)
    await server.store.sweep()
    (mark,) = server.store.directory.rglob("*.gone")
    long_ago = time.time() - 3601
    os.utime(mark, (long_ago, long_ago))
    await server.store.sweep()
    assert server.files() == []


@pytest.mark.parametrize("artifact_id", ["", "..", "../../etc/passwd", "a/b", "a\0b", "x.part", "a" * 65, "-a", "ä"])
async def test_what_is_no_id_never_becomes_a_path(tmp_path: Path, artifact_id: str) -> None:
    store = DiskStore(tmp_path, "http://x", SECRET, 0)
    for refused in (store.size(artifact_id), store.delete(artifact_id)):
        with pytest.raises(ValueError, match="not an artifact id"):
            await refused


@pytest.mark.parametrize("media_type", ["text/plain\r\nX: y", "text", "text/plain; name=é", "", "text/ plain"])
def test_what_is_no_media_type_never_becomes_a_header(media_type: str) -> None:
    with pytest.raises(ValueError, match="not a media type"):
        grant_for(media_type=media_type)
