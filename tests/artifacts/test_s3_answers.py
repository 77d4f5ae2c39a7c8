"""Services that do not answer as S3 does: too much, too little, too slowly, not at all."""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from node.artifacts.blobs import s3
from node.artifacts.blobs.bucket import bucket_from_aws
from node.artifacts.blobs.interface import BlobUnavailable
from node.artifacts.blobs.s3 import S3Store
from node.store import ids, keys
from tests.artifacts.blobs import DATA, grant_for
from tests.artifacts.calls import node_on, registered
from tests.support.fixed_answer import FixedAnswer
from tests.support.servers import PATIENCE, RedisServer, eventually

AWS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}

Answers = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def without_end(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"10000\r\n" + bytes(65536) + b"\r\n")
        await writer.drain()


async def one_byte_more(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(DATA) + 1) + DATA + b"!")


async def the_beginning(writer: asyncio.StreamWriter) -> None:
    """Send a truncated answer without a length, as a proxy whose own source was cut off."""
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + DATA[:-1])


@asynccontextmanager
async def store_that_gets(answers: Answers) -> AsyncGenerator[S3Store]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            await answers(writer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        store = S3Store.from_aws("s3://bucket", AWS | {"AWS_ENDPOINT_URL": endpoint})
        yield store
        await store.close()


@pytest.mark.parametrize("answers", [without_end, one_byte_more, the_beginning])
async def test_of_an_object_that_is_not_as_long_as_granted_no_more_is_read_and_nothing_is_known(
    answers: Answers,
) -> None:
    read = bytearray()
    async with store_that_gets(answers) as store:
        with pytest.raises(BlobUnavailable, match=f"other than {len(DATA)} bytes"):
            async for chunk in store.read(grant_for()):
                read += chunk
    assert len(read) <= len(DATA)


async def test_an_object_that_comes_too_slowly_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    given_up = asyncio.Event()

    async def stops(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(DATA) + DATA[:1])
        await given_up.wait()

    async with store_that_gets(stops) as store:
        monkeypatch.setattr(s3, "READ_SECONDS", 0)
        monkeypatch.setattr(s3, "SLOWEST_RATE", math.inf)
        with pytest.raises(BlobUnavailable, match="too slowly"):
            await anext(store.read(grant_for()))
        given_up.set()


async def test_a_sweep_that_a_hanging_bucket_holds_up_ends_with_its_worker(
    empty_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "READ_SECONDS", 10 * PATIENCE)
    async with FixedAnswer() as bucket:
        aws = AWS | {"AWS_ENDPOINT_URL": bucket.url}
        async with node_on(empty_redis, blob_url="s3://bucket", aws=aws) as node:
            artifact = await registered(node)
            await node.store.command("ZADD", keys.artifacts(ids.partition_of_id(artifact["id"])), 1, artifact["id"])
            async with asyncio.timeout(2 * PATIENCE), node.worker():
                await eventually(lambda: bucket.heads)
                assert bucket.heads[0].startswith(b"DELETE ")


@pytest.mark.parametrize("microseconds", [0, 1, 999_999])
async def test_a_url_is_valid_until_the_moment_that_clients_are_told_and_less_than_a_second_longer(
    microseconds: int,
) -> None:
    """A signature's time is in whole seconds, rounded down, so without a correction a URL would end up to a second
    early.
    """
    began = datetime(2026, 11, 29, 12, 30, 59, microseconds, UTC)
    store = S3Store(*bucket_from_aws("s3://bucket", AWS), lambda: began)
    urls = [await store.content_url(grant_for(), None, 300)]
    urls += [await store.upload_url(grant_for(), 900, begins=began.timestamp())]
    for url, seconds in zip(urls, (300, 900), strict=True):
        signed = parse_qs(urlsplit(url).query)
        at = datetime.strptime(signed["X-Amz-Date"][0], "%Y%m%dT%H%M%S%z")
        ends = at + timedelta(seconds=int(signed["X-Amz-Expires"][0]))
        assert timedelta(0) <= ends - (began + timedelta(seconds=seconds)) < timedelta(seconds=1)
    await store.close()
