"""The S3 store against a real S3 service (OpenStack Swift), which refuses what the node did not grant."""

import gzip
import re
import time
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime, timedelta

import httpx2
import pytest

from node.artifacts.blobs.bucket import Bucket
from node.artifacts.blobs.interface import BlobMissing, BlobUnavailable
from node.artifacts.blobs.s3 import S3Store
from node.artifacts.blobs.sigv4 import Credentials
from node.common.refusal import Refused
from node.store.ids import new_id
from node.web.http import Receive, Scope, Send
from tests.artifacts.blobs import BIG, DATA, grant_for, serving
from tests.artifacts.swift import BUCKET, Swift
from tests.support.servers import PATIENCE, free_port

URL = f"s3://{BUCKET}/node a/b+c"
"""The prefix has characters that must be escaped, once and in the same way on both sides."""


@pytest.fixture
async def store(swift: Swift) -> AsyncGenerator[S3Store]:
    store = S3Store.from_aws(URL, swift._asdict())
    yield store
    await store.close()


@pytest.fixture
async def client() -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=PATIENCE) as client:
        yield client


def code(answer: httpx2.Response) -> str:
    found = re.search(r"<Code>(\w+)</Code>", answer.text)
    return found[1] if found else answer.text


async def test_bytes_go_to_the_bucket_and_come_back_as_an_attachment(
    store: S3Store, client: httpx2.AsyncClient
) -> None:
    grant = grant_for(BIG, "text/csv; charset=utf-8", new_id())
    assert await store.size(grant.id) is None
    headers = store.upload_headers(grant)
    assert (await client.put(await store.upload_url(grant, 900), content=BIG, headers=headers)).status_code == 200
    assert await store.size(grant.id) == len(BIG)
    assert b"".join([chunk async for chunk in store.read(grant)]) == BIG
    got = await client.get(await store.content_url(grant, 'números "1".csv', 300))
    assert (got.status_code, got.content, got.headers["content-type"]) == (200, BIG, "text/csv; charset=utf-8")
    assert got.headers["content-disposition"] == (
        "attachment; filename=\"n_meros _1_.csv\"; filename*=UTF-8''n%C3%BAmeros%20%221%22.csv"
    )


async def test_bytes_are_served_as_they_were_verified_whatever_the_upload_said_of_them(
    store: S3Store, client: httpx2.AsyncClient
) -> None:
    packed = gzip.compress(bytes(1_000_000))
    grant = grant_for(packed, "text/csv", new_id())
    headers = {**store.upload_headers(grant), "Content-Encoding": "gzip", "Cache-Control": "public, max-age=99999999"}
    assert (await client.put(await store.upload_url(grant, 900), content=packed, headers=headers)).status_code == 200
    got = await client.get(await store.content_url(grant, None, 300))
    assert (got.status_code, got.content) == (200, packed)
    assert (got.headers["content-encoding"], got.headers["cache-control"]) == ("identity", "private, max-age=300")


async def test_an_upload_url_that_is_made_again_is_the_same(store: S3Store, client: httpx2.AsyncClient) -> None:
    grant, began = grant_for(artifact_id=new_id()), int(time.time()) - 10
    url, again = [await store.upload_url(grant, 900, began) for _ in range(2)]
    assert again == url
    assert (await client.put(url, content=DATA, headers=store.upload_headers(grant))).status_code == 200


async def test_an_upload_url_works_once(store: S3Store, client: httpx2.AsyncClient) -> None:
    grant = grant_for(artifact_id=new_id())
    url, headers = await store.upload_url(grant, 900), store.upload_headers(grant)
    assert (await client.put(url, content=DATA, headers=headers)).status_code == 200
    again = await client.put(url, content=DATA, headers=headers)
    assert (again.status_code, code(again)) == (412, "PreconditionFailed")


async def test_bytes_that_the_node_writes_again_are_told_from_a_bucket_that_fails(store: S3Store) -> None:
    grant = grant_for(artifact_id=new_id())
    await store.write(grant, DATA)
    with pytest.raises(Refused, match=r"blob\.uploaded"):
        await store.write(grant, DATA)


CHECKSUM = "x-amz-checksum-sha256"
OTHER_DIGEST = "A" * 43 + "="


@pytest.mark.parametrize(
    ("content", "change", "refused"),
    [
        (DATA[:-1] + b"!", {}, "BadDigest"),
        (DATA[:-1], {}, "SignatureDoesNotMatch"),
        (DATA + b"!", {}, "SignatureDoesNotMatch"),
        (DATA, {"Content-Type": "text/html"}, "SignatureDoesNotMatch"),
        (DATA, {"Content-Type": None}, "SignatureDoesNotMatch"),
        (DATA, {CHECKSUM: OTHER_DIGEST}, "SignatureDoesNotMatch"),
        (DATA, {CHECKSUM: None}, "SignatureDoesNotMatch"),
        (DATA, {"If-None-Match": None}, "SignatureDoesNotMatch"),
    ],
)
async def test_an_upload_url_takes_only_the_bytes_it_was_made_for(
    store: S3Store, client: httpx2.AsyncClient, content: bytes, change: Mapping[str, str | None], refused: str
) -> None:
    grant = grant_for(artifact_id=new_id())
    headers = {name: value for name, value in {**store.upload_headers(grant), **change}.items() if value is not None}
    answer = await client.put(await store.upload_url(grant, 900), content=content, headers=headers)
    assert code(answer) == refused
    assert await store.size(grant.id) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"Expires=\d+", "Expires=9000"),
        (r"Signature=\w", "Signature=x"),
        (r"%3Bx-amz-checksum-sha256", ""),
        (r"[0-9a-f]{12}\?", "0123456789ab?"),
    ],
)
async def test_a_changed_upload_url_is_refused(store: S3Store, client: httpx2.AsyncClient, old: str, new: str) -> None:
    grant = grant_for(artifact_id=new_id())
    url = re.sub(old, new, await store.upload_url(grant, 900))
    answer = await client.put(url, content=DATA, headers=store.upload_headers(grant))
    assert (answer.status_code, code(answer)) == (403, "SignatureDoesNotMatch")


async def test_an_expired_url_is_refused(swift: Swift, store: S3Store, client: httpx2.AsyncClient) -> None:
    grant = grant_for(artifact_id=new_id())
    earlier = S3Store(
        Bucket.parse(URL, "us-east-1", swift.AWS_ENDPOINT_URL),
        Credentials(access_key_id=swift.AWS_ACCESS_KEY_ID, secret_access_key=swift.AWS_SECRET_ACCESS_KEY),
        lambda: datetime.now(UTC) - timedelta(seconds=902),
    )
    put = await client.put(await earlier.upload_url(grant, 900), content=DATA, headers=store.upload_headers(grant))
    got = await client.get(await earlier.content_url(grant, None, 900))
    assert (code(put), code(got)) == ("AccessDenied", "AccessDenied")
    assert await store.size(grant.id) is None


async def test_what_is_deleted_is_gone(store: S3Store, client: httpx2.AsyncClient) -> None:
    grant = grant_for(artifact_id=new_id())
    await client.put(await store.upload_url(grant, 900), content=DATA, headers=store.upload_headers(grant))
    await store.delete(grant.id)
    await store.delete(grant.id)
    assert await store.size(grant.id) is None
    with pytest.raises(BlobMissing):
        await anext(store.read(grant))
    assert (await client.get(await store.content_url(grant, None, 300))).status_code == 404


async def test_a_bucket_that_cannot_be_used_is_told_before_anything_is_stored(swift: Swift, store: S3Store) -> None:
    await store.check()
    aws = swift._asdict()
    for url, environment, reason in (
        ("s3://no-such-bucket", aws, "there is no bucket"),
        (URL, aws | {"AWS_SECRET_ACCESS_KEY": "wrong"}, "answered HEAD with 403"),
        (URL, aws | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}"}, "cannot be reached"),
    ):
        other = S3Store.from_aws(url, environment)
        with pytest.raises(BlobUnavailable, match=reason):
            await other.check()
        await other.close()


async def test_a_service_that_lets_nothing_pass_a_condition_is_told_before_anything_is_stored() -> None:
    async def refuse_uploads(scope: Scope, receive: Receive, send: Send) -> None:
        status = 412 if scope["method"] == "PUT" else 200
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    port = free_port()
    aws = Swift(f"http://127.0.0.1:{port}")._asdict()
    async with serving(refuse_uploads, port):
        store = S3Store.from_aws(URL, aws)
        with pytest.raises(BlobUnavailable, match="answered PUT with 412"):
            await store.check()
        await store.close()


async def test_a_bucket_with_a_host_of_its_own_takes_the_same_uploads(
    swift: Swift, store: S3Store, client: httpx2.AsyncClient
) -> None:
    port = httpx2.URL(swift.AWS_ENDPOINT_URL).port
    by_host = S3Store.from_aws(f"{URL}?style=virtual", swift._asdict() | {"AWS_ENDPOINT_URL": f"http://s3.test:{port}"})
    grant = grant_for(artifact_id=new_id())
    host = f"{BUCKET}.s3.test:{port}"
    headers = {**by_host.upload_headers(grant), "Host": host}
    url = (await by_host.upload_url(grant, 900)).replace(host, f"127.0.0.1:{port}")  # as DNS would resolve it
    assert (await client.put(url, content=DATA, headers=headers)).status_code == 200
    assert await store.size(grant.id) == len(DATA)


@pytest.mark.parametrize(
    ("url", "endpoint", "address"),
    [
        ("s3://b", "", "https://b.s3.eu-west-1.amazonaws.com/"),
        ("s3://b/p/q/", "", "https://b.s3.eu-west-1.amazonaws.com/p/q/"),
        ("s3://b.with.dots/p?style=path", "", "https://s3.eu-west-1.amazonaws.com/b.with.dots/p/"),
        ("s3://b/p", "http://minio:9000", "http://minio:9000/b/p/"),
        ("s3://b/p", "http://minio:9000/", "http://minio:9000/b/p/"),
        ("s3://b/p?style=virtual", "https://objects.example", "https://b.objects.example/p/"),
    ],
)
def test_a_bucket_is_addressed_by_host_at_aws_and_by_path_elsewhere(url: str, endpoint: str, address: str) -> None:
    bucket = Bucket.parse(url, "eu-west-1", endpoint)
    assert bucket.origin + bucket.path + bucket.prefix == address


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("s3://", ""),
        ("s3:///p", ""),
        ("s3://b?style=round", ""),
        ("s3://b?once=maybe", ""),
        ("s3://b?region=x", ""),
        ("s3://b", "minio:9000"),
        ("s3://b", "https://x.example/s3"),
    ],
)
def test_a_bucket_that_cannot_be_read_is_refused_at_the_start(url: str, endpoint: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        Bucket.parse(url, "us-east-1", endpoint)


def test_missing_credentials_are_named() -> None:
    with pytest.raises(ValueError, match="needs AWS_SECRET_ACCESS_KEY"):
        S3Store.from_aws("s3://b", {"AWS_ACCESS_KEY_ID": "x"})


def test_a_service_without_conditional_writes_can_be_used() -> None:
    aws = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
    headers = {url: set(S3Store.from_aws(url, aws).upload_headers(grant_for())) for url in ("s3://b", "s3://b?once=no")}
    assert headers["s3://b"] - headers["s3://b?once=no"] == {"If-None-Match"}
