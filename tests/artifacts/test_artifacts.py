"""Artifacts over HTTP, on a real Redis and the embedded blob store (SPEC 4.6)."""

import asyncio
from base64 import b64encode
from datetime import datetime
from hashlib import sha256
from typing import Any

import pytest

from node.artifacts.store import ArtifactStore, ArtifactVerdict
from node.store import ids, keys
from tests.artifacts.blobs import BIG, DATA
from tests.artifacts.calls import (
    ARTIFACTS,
    available,
    complete,
    content_digest,
    named,
    register,
    registered,
    upload,
    verified,
)
from tests.support.answers import refused
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import WOKEN


async def test_bytes_go_from_one_agent_to_another_and_never_through_the_relay(node: NodeUnderTest) -> None:
    made = await register(node)
    assert made.status_code == 201
    artifact = made.json()
    assert made.headers["location"] == artifact["url"] == f"http://node.example{ARTIFACTS}/{artifact['id']}"
    assert artifact["upload_url"].startswith("http://node.example/blobs/")
    assert (artifact["status"], artifact["digest_sha256"]) == ("registered", sha256(DATA).hexdigest())
    assert (await upload(node, artifact)).status_code == 200
    async with node.worker():
        completed = await complete(node, artifact)
        assert (completed.status_code, completed.json()["status"]) == (202, "verifying")
        manifest = await verified(node, artifact)
    assert (manifest["status"], manifest["reason"]) == ("available", None)
    led = await node.client.get(f"{ARTIFACTS}/{artifact['id']}/content")
    assert led.status_code == 307
    got = await node.client.get(led.headers["location"])
    assert (got.status_code, got.content) == (200, DATA)
    assert got.headers["content-type"] == "text/csv"
    assert got.headers["content-disposition"].startswith('attachment; filename="people.csv"')
    assert "x-request-id" in got.headers


async def test_a_manifest_shows_what_was_registered_and_no_upload_url(node: NodeUnderTest) -> None:
    artifact = await registered(node)
    manifest = (await node.client.get(f"{ARTIFACTS}/{artifact['id']}")).json()
    assert manifest == {name: value for name, value in artifact.items() if not name.startswith("upload_")}
    assert manifest["content_url"] == f"{manifest['url']}/content"
    assert (manifest["filename"], manifest["byte_size"]) == ("people.csv", len(DATA))
    assert (manifest["completed_at"], manifest["available_at"]) == (None, None)


async def test_an_upload_url_lives_15_minutes_and_a_content_url_5(node: NodeUnderTest) -> None:
    artifact = await available(node)
    life = datetime.fromisoformat(artifact["upload_expires_at"]) - datetime.fromisoformat(artifact["created_at"])
    assert life.total_seconds() == 900
    led = await node.client.get(f"{ARTIFACTS}/{artifact['id']}/content")
    got = await node.client.head(led.headers["location"])
    age = int(got.headers["cache-control"].rpartition("=")[2])
    assert 290 < age <= 300


@pytest.mark.parametrize("spelling", [sha256(DATA).hexdigest().upper(), b64encode(sha256(DATA).digest()).decode()])
async def test_a_digest_may_be_spelled_in_hex_or_base64(node: NodeUnderTest, spelling: str) -> None:
    response = await register(node, digest_sha256=spelling)
    assert response.json()["digest_sha256"] == sha256(DATA).hexdigest()


@pytest.mark.parametrize(
    ("header", "loc"),
    [
        (None, ["header", "Content-Digest"]),
        ("", ["header", "Content-Digest"]),
        ("sha-256=abc", ["header", "Content-Digest"]),
        ("md5=:AAAAAAAAAAAAAAAAAAAAAA==:", ["header", "Content-Digest"]),
        (f"sha-512=:{b64encode(bytes(64)).decode()}:", ["header", "Content-Digest"]),
        (content_digest(b"other bytes"), ["body", "digest_sha256"]),
    ],
)
async def test_the_digest_in_the_header_must_be_that_of_the_body(
    node: NodeUnderTest, header: str | None, loc: list[str]
) -> None:
    headers = {} if header is None else {"content-digest": header}
    response = await node.client.post(ARTIFACTS, json=named(), headers=headers)
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"] == loc


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("publisher_id", None),
        ("publisher_id", ""),
        ("publisher_id", " "),
        ("publisher_id", "two\nlines"),
        ("publisher_id", "right\u202eto left"),
        ("publisher_id", "\u0430gent-7"),
        ("publisher_id", "x" * 201),
        ("media_type", "text"),
        ("media_type", "text/"),
        ("media_type", "*/*"),
        ("media_type", "text/csv\r\nX: y"),
        ("media_type", "text/csv; charset"),
        ("media_type", "text/csv; name=\u00e9"),
        ("media_type", "text/" + "x" * 300),
        ("byte_size", 0),
        ("byte_size", -1),
        ("byte_size", 1.5),
        ("byte_size", "22"),
        ("byte_size", True),
        ("byte_size", 100 * 1024 * 1024 + 1),
        ("byte_size", 2**64),
        ("digest_sha256", "abc"),
        ("digest_sha256", "g" * 64),
        ("digest_sha256", 5),
        ("filename", "../../etc/passwd"),
        ("filename", "a\\b"),
        ("filename", ".."),
        ("filename", "two\nlines"),
        ("filename", "x" * 256),
    ],
)
async def test_a_wrong_field_is_named_and_nothing_is_kept(node: NodeUnderTest, field: str, value: object) -> None:
    changed: dict[str, Any] = {field: value}
    response = await register(node, **changed)
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"] == ["body", field]
    assert await node.names("artifact*") == []


@pytest.mark.parametrize(
    "media_type", ['multipart/mixed; boundary="a b;c"', "application/vnd.api+json", "x/y;a=b; c=d"]
)
async def test_any_media_type_may_be_named(node: NodeUnderTest, media_type: str) -> None:
    artifact = (await register(node, media_type=media_type)).json()
    assert artifact["upload_headers"] == {"Content-Type": media_type}
    assert (await upload(node, artifact)).status_code == 200


async def test_an_upload_url_takes_the_promised_bytes_once(node: NodeUnderTest) -> None:
    artifact = await registered(node)
    assert refused(await upload(node, artifact, b"x" * len(DATA))) == (400, "blob.digest")
    assert refused(await upload(node, artifact, DATA + b"x")) == (400, "blob.size")
    wrong_type = await node.client.put(artifact["upload_url"], content=DATA, headers={"content-type": "image/png"})
    assert refused(wrong_type) == (400, "blob.type")
    assert (await upload(node, artifact)).status_code == 200
    again = await upload(node, artifact)
    assert refused(again) == (409, "blob.uploaded")
    # Tells clients that got no answer to the first upload what to do next.
    assert "complete the artifact" in again.json()["error"]


async def test_a_blob_path_is_no_business_of_the_rest_of_the_node(node: NodeUnderTest) -> None:
    artifact = await available(node)
    url = (await node.client.get(f"{ARTIFACTS}/{artifact['id']}/content")).headers["location"]
    head = await node.client.head(url)
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(DATA)))
    preflight = {"origin": "https://x.example", "access-control-request-method": "PUT"}
    allowed = await node.client.options(artifact["upload_url"], headers=preflight)
    assert allowed.headers["access-control-allow-methods"] == "GET, HEAD, PUT"
    forged = await node.client.put("/blobs/forged", content=DATA)
    assert refused(forged) == (403, "blob.forged")
    for shown in ("X-Error-Code", "X-Request-Id"):  # readable by pages of other origins, too
        assert shown in forged.headers and shown in forged.headers["access-control-expose-headers"]
    for response in (head, allowed):
        assert len(response.headers.get_list("x-request-id")) == 1
        assert response.headers.get_list("access-control-allow-origin") == ["*"]


async def test_content_is_led_to_only_while_it_is_available(node: NodeUnderTest) -> None:
    artifact = await registered(node)
    content = f"{ARTIFACTS}/{artifact['id']}/content"
    assert refused(await node.client.get(content)) == (409, "artifact.state")
    await complete(node, artifact)
    assert refused(await node.client.get(content)) == (409, "artifact.state")
    assert refused(await node.client.get(f"{ARTIFACTS}/{ids.new_id()}/content")) == (404, "artifact.unknown")


async def test_head_of_the_content_says_what_it_is(node: NodeUnderTest) -> None:
    artifact = await available(node)
    head = await node.client.head(f"{ARTIFACTS}/{artifact['id']}/content")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers.get_list("content-length") == [str(len(DATA))]
    assert head.headers.get_list("content-type") == ["text/csv"]
    assert head.headers["repr-digest"] == content_digest()
    assert head.headers["cache-control"] == "no-store"
    assert "location" not in head.headers
    url = f"{ARTIFACTS}/{artifact['id']}/content"
    assert (await node.client.head(url, headers={"if-none-match": head.headers["etag"]})).status_code == 304
    assert (await node.client.head(url, headers={"if-match": '"another"'})).status_code == 412


@pytest.mark.parametrize("artifact_id", ["01a1fbd5-10f1-7326-b473-b7b7836b6ce8", "x", "0" * 36, "%00", "..%2f.."])
async def test_an_unknown_artifact_is_not_found(node: NodeUnderTest, artifact_id: str) -> None:
    one = f"{ARTIFACTS}/{artifact_id}"
    for response in (await node.client.get(one), await node.client.post(f"{one}/complete")):
        assert response.status_code == 404
        assert response.headers["x-error-code"] in {"artifact.unknown", "path.spelling"}


async def test_a_repeated_registration_gets_the_same_manifest_and_uploads_once(node: NodeUnderTest) -> None:
    key = {"idempotency-key": "k1"}
    first, second = [await register(node, headers=key) for _ in range(2)]
    assert "idempotency-replayed" not in first.headers
    assert (second.status_code, second.headers["idempotency-replayed"]) == (201, "true")
    assert second.content == first.content
    assert (await upload(node, second.json())).status_code == 200
    assert refused(await upload(node, first.json())) == (409, "blob.uploaded")
    conflict = await register(node, headers=key, publisher_id="another-desk")
    assert conflict.status_code == 422
    assert conflict.headers["x-error-code"] == "idempotency.conflict"
    assert await node.store.command("HGET", _bytes(node), "all") == str(len(DATA)).encode()
    await complete(node, first.json())
    assert (await register(node, headers=key)).json()["upload_url"] is None


async def test_a_registration_repeated_too_late_has_no_upload_url_any_more(node: NodeUnderTest) -> None:
    key = {"idempotency-key": "the key of one agent"}
    artifact = (await register(node, headers=key)).json()
    record = keys.artifact(artifact["id"])
    created = int(await node.store.command("HGET", record, "created_at"))  # type: ignore[arg-type]
    await node.store.command("HSET", record, "created_at", created - 890_000)
    late = (await register(node, headers=key)).json()
    assert late["upload_url"] is not None
    await node.store.command("HSET", record, "created_at", created - 900_000)
    later = (await register(node, headers=key)).json()
    assert (later["id"], later["upload_url"]) == (artifact["id"], None)


async def test_registrations_are_limited_per_client(node: NodeUnderTest) -> None:
    responses = [await register(node) for _ in range(10)]
    assert {response.status_code for response in responses} == {201}
    assert responses[-1].headers["ratelimit"].startswith('"artifact";r=0')
    assert refused(await register(node)) == (429, "limit.exceeded")
    async with node.client_at("198.51.100.9") as other:
        assert (await register(node, client=other)).status_code == 201


async def test_a_reader_who_names_no_status_waits_for_another_than_the_present_one(node: NodeUnderTest) -> None:
    artifact = await registered(node)
    await upload(node, artifact)
    waiting = asyncio.create_task(node.client.get(f"{ARTIFACTS}/{artifact['id']}", params={"wait": 30}))
    await node.listened_to(keys.artifact(artifact["id"]))
    assert not waiting.done()
    await complete(node, artifact)
    assert (await waiting).json()["status"] == "verifying"


async def test_who_names_no_status_of_an_artifact_that_is_settled_is_answered_at_once(node: NodeUnderTest) -> None:
    artifact = await registered(node)
    await upload(node, artifact)
    await complete(node, artifact)
    async with node.worker():
        await verified(node, artifact)
    async with asyncio.timeout(WOKEN):
        response = await node.client.get(f"{ARTIFACTS}/{artifact['id']}", params={"wait": 30})
    assert response.json()["status"] == "available"


async def test_an_artifact_can_be_the_input_of_a_task(node: NodeUnderTest) -> None:
    artifact = await registered(node)
    task = {"publisher_id": "desk", "title": "Count the people in a table"}
    offered = await node.client.post("/api/v1/tasks", json={**task, "input_artifact_ids": [artifact["id"]]})
    assert (offered.status_code, offered.json()["input_artifact_ids"]) == (201, [artifact["id"]])
    unknown = [artifact["id"], ids.new_id(), "x"]
    response = await node.client.post("/api/v1/tasks", json={**task, "input_artifact_ids": unknown})
    assert [issue["loc"][-1] for issue in response.json()["detail"]] == [1, 2]


async def test_the_node_says_that_it_takes_artifacts(node: NodeUnderTest) -> None:
    assert (await node.client.get("/health")).json()["capabilities"]["artifacts"] is True


async def test_other_methods_are_refused(node: NodeUnderTest) -> None:
    response = await node.client.delete(f"{ARTIFACTS}/{ids.new_id()}")
    assert refused(response) == (405, "method.unknown")
    assert response.headers["allow"] == "GET, HEAD, OPTIONS"


def _bytes(node: NodeUnderTest) -> str:
    return keys.artifact_bytes(ids.partition_of("203.0.113.7"))


async def test_large_content_is_verified_and_served_whole(node: NodeUnderTest) -> None:
    artifact = await available(node, BIG, media_type="application/octet-stream")
    got = await node.client.get(f"{ARTIFACTS}/{artifact['id']}/content", follow_redirects=True)
    assert got.content == BIG


MALFORMED: list[dict[str, Any]] = [
    {"content": b"{", "headers": {"content-type": "application/json"}},
    {"json": {}},
    {"json": named()},
    {"json": named(media_type="text"), "headers": {"content-digest": content_digest()}},
]


@pytest.mark.parametrize("wanted", MALFORMED)
async def test_a_malformed_artifact_counts_against_the_limit(node: NodeUnderTest, wanted: dict[str, Any]) -> None:
    codes = [(await node.client.post(ARTIFACTS, **wanted)).status_code for _ in range(11)]
    assert codes == [422] * 10 + [429]
    assert (await register(node)).status_code == 429
    assert await node.names("artifact*") == []


@pytest.mark.parametrize("step", ["complete", "settle", "withdraw", "end"])
async def test_a_reader_who_waits_is_told_what_becomes_of_an_artifact(node: NodeUnderTest, step: str) -> None:
    artifact = await registered(node)
    status = "registered"
    if step == "settle":
        status = (await complete(node, artifact)).json()["status"]
    waiting = asyncio.create_task(
        node.client.get(f"{ARTIFACTS}/{artifact['id']}", params={"wait": 30, "status": status})
    )
    await node.listened_to(keys.artifact(artifact["id"]))
    store = ArtifactStore(node.store, 60, 60)
    if step == "complete":
        await complete(node, artifact)
    elif step == "settle":
        assert await store.settle(artifact["id"], "1", ArtifactVerdict("available"))
    elif step == "withdraw":
        assert await store.withdraw(artifact["id"], "It is gone.")
    else:
        await node.store.command("ZADD", keys.artifacts(ids.partition_of_id(artifact["id"])), 1, artifact["id"])
        assert await store.end(artifact["id"])
    found = (await asyncio.wait_for(waiting, WOKEN)).json()["status"]
    ends = {"complete": "verifying", "settle": "available", "withdraw": "rejected", "end": "expired"}
    assert found == ends[step]
