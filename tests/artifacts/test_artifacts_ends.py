"""How artifacts end: verified or not, expired, removed; and their bytes are given back exactly once."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from node.artifacts.store import ArtifactStore
from node.common.refusal import Refused
from node.store import ids, keys
from node.store.clock import now_ms
from node.store.outbox import Event, Postponed
from tests.artifacts.blobs import DATA, holds_open
from tests.artifacts.calls import ARTIFACTS, available, complete, node_on, read, register, registered, upload, verified
from tests.support.answers import refused
from tests.support.node_under_test import PATIENCE, NodeUnderTest
from tests.support.servers import WOKEN, RedisServer, eventually

SIZE = len(DATA)


@pytest.fixture
def overrides(overrides: dict[str, Any]) -> dict[str, Any]:
    return overrides | {"artifact_client_bytes": 3 * SIZE, "artifact_total_bytes": 4 * SIZE}


async def completions(node: NodeUnderTest, artifact: dict[str, Any]) -> list[Event]:
    """Return the events that tell the worker of the artifact."""
    partition = ids.partition_of_id(artifact["id"])
    entries: Any = await node.store.command("XRANGE", keys.events(partition), "-", "+")
    found = [(name.decode(), dict(zip(*[iter(map(bytes.decode, flat))] * 2, strict=True))) for name, flat in entries]
    return [Event(name, partition, each.pop("type"), each.pop("id"), each) for name, each in found]


async def bytes_held(node: NodeUnderTest) -> tuple[int, int]:
    """Return the bytes held by the client and by its partition."""
    client = "203.0.113.7"
    counts: Any = await node.store.command("HMGET", keys.artifact_bytes(ids.partition_of(client)), client, "all")
    return int(counts[0] or 0), int(counts[1] or 0)


async def let_pass(node: NodeUnderTest, artifact: dict[str, Any], *, sweep: bool = True) -> None:
    """Let the artifact's times be over, as if it had been registered long ago."""
    record = keys.artifact(artifact["id"])
    if await node.store.command("HEXISTS", record, "expires_at"):
        await node.store.command("HSET", record, "expires_at", 1)
    await node.store.command("HSET", record, "upload_until", 1)
    if sweep:
        await node.store.command("ZADD", keys.artifacts(ids.partition_of_id(artifact["id"])), "XX", 1, artifact["id"])


def files(node: NodeUnderTest) -> list[str]:
    return sorted(path.name for path in node.settings.data_dir.rglob("*") if path.is_file())


def put_bytes(node: NodeUnderTest, artifact: dict[str, Any], data: bytes) -> None:
    """Put bytes into the blob store that the node granted no upload for, as a store without checks could accept
    them.
    """
    file = node.settings.data_dir / "blobs" / artifact["id"][-2:] / artifact["id"]
    file.parent.mkdir(parents=True)
    file.write_bytes(data)


async def test_who_waits_is_told_when_an_artifact_expires(node: NodeUnderTest) -> None:
    """The expiry itself sends no wake-up."""
    artifact = await registered(node)
    await node.store.command("HSET", keys.artifact(artifact["id"]), "expires_at", await now_ms(node.store) + 1000)
    async with asyncio.timeout(WOKEN):
        assert (await read(node, artifact, wait=30, status="registered"))["status"] == "expired"


async def test_completing_before_the_upload_lets_it_be_uploaded_and_completed_again(node: NodeUnderTest) -> None:
    artifact = await registered(node)
    async with node.worker():
        await complete(node, artifact)
        manifest = await verified(node, artifact)
        assert (manifest["status"], manifest["completed_at"]) == ("registered", None)
        assert manifest["reason"].startswith("The artifact was completed before anything was uploaded")
        assert manifest["expires_at"] == artifact["expires_at"]
        assert (await upload(node, artifact)).status_code == 200
        again = (await complete(node, artifact)).json()
        assert (again["status"], again["reason"]) == ("verifying", None)
        assert (await verified(node, artifact))["status"] == "available"


async def test_completing_again_changes_nothing(node: NodeUnderTest) -> None:
    artifact = await registered(node)
    await upload(node, artifact)
    first, second = [await complete(node, artifact) for _ in range(2)]
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json() == second.json()
    assert len(await completions(node, artifact)) == 1
    async with node.worker():
        manifest = await verified(node, artifact)
    third = await complete(node, artifact)
    assert (third.status_code, third.json()) == (202, manifest)


@pytest.mark.parametrize(
    ("stored", "media_type", "reason"),
    [
        (DATA + b"!", "text/csv", f"The uploaded content has {SIZE + 1} bytes, not {SIZE}."),
        (DATA[:-1] + b"!", "text/csv", "The SHA-256 of the uploaded bytes is "),
        (DATA, "image/png", "The uploaded content is plainly text/plain, not image/png."),
    ],
)
async def test_bytes_that_are_not_the_promised_ones_are_rejected_and_removed(
    node: NodeUnderTest, stored: bytes, media_type: str, reason: str
) -> None:
    artifact = await registered(node, media_type=media_type)
    put_bytes(node, artifact, stored)
    await complete(node, artifact)
    async with node.worker():
        manifest = await verified(node, artifact)
        await eventually(lambda: artifact["id"] not in files(node))
    assert (manifest["status"], manifest["expires_at"]) == ("rejected", None)
    assert manifest["reason"].startswith(reason)
    assert refused(await complete(node, artifact)) == (409, "artifact.state")
    assert refused(await node.client.get(f"{ARTIFACTS}/{artifact['id']}/content")) == (409, "artifact.state")
    async with asyncio.timeout(WOKEN):  # this status is final, so even a reader that already knows it must not wait
        assert await read(node, artifact, wait=30, status="rejected") == manifest


async def test_a_worker_that_dies_while_verifying_is_followed_by_another(
    empty_redis: RedisServer, tmp_path: Path
) -> None:
    async with node_on(empty_redis, data_dir=tmp_path) as node:
        content = bytes(64 * 1024 * 1024)  # takes a while to read
        artifact = await registered(node, content, media_type="application/octet-stream")
        await upload(node, artifact, content)
        await complete(node, artifact)
        events = await completions(node, artifact)
        first = asyncio.create_task(node.services().verifier.handle(events))
        await eventually(lambda: holds_open(artifact["id"]))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert (await read(node, artifact))["status"] == "verifying"
        await node.services().verifier.handle(events)
        assert (await read(node, artifact))["status"] == "available"


async def test_an_event_that_comes_again_settles_nothing_again(node: NodeUnderTest) -> None:
    artifact = await registered(node)
    await complete(node, artifact)
    verifier = node.services().verifier
    (early,) = await completions(node, artifact)
    await verifier.handle([early, early])
    await upload(node, artifact)
    await complete(node, artifact)
    await verifier.handle([early])
    assert (await read(node, artifact))["status"] == "verifying"
    _, late = await completions(node, artifact)
    await verifier.handle([late])
    manifest = await read(node, artifact)
    await verifier.handle([late, early])
    assert await read(node, artifact) == manifest
    assert manifest["status"] == "available"


async def test_a_blob_store_out_of_reach_delays_the_verdict(node: NodeUnderTest) -> None:
    artifact, other = await registered(node), await registered(node)
    for each in (artifact, other):
        await upload(node, each)
        await complete(node, each)
    directory = node.settings.data_dir / "blobs" / artifact["id"][-2:]
    events = await completions(node, artifact)
    away = directory.rename(directory.with_name("away"))
    directory.symlink_to(directory)  # every access now fails with an error that says nothing about the bytes
    with pytest.raises(Postponed):
        await node.services().verifier.handle(events)
    assert (await read(node, artifact))["status"] == "verifying"
    directory.unlink()
    away.rename(directory)
    await node.services().verifier.handle(events)
    assert (await read(node, artifact))["status"] == "available"


async def test_what_is_not_completed_in_time_is_expired_even_before_the_sweep(node: NodeUnderTest) -> None:
    artifact = await registered(node)
    await upload(node, artifact)
    await let_pass(node, artifact, sweep=False)
    manifest = await read(node, artifact)
    assert manifest["status"] == "expired"
    assert "not uploaded and completed in time" in manifest["reason"]
    assert refused(await complete(node, artifact)) == (409, "artifact.state")
    assert await completions(node, artifact) == []


async def test_the_sweep_removes_the_bytes_gives_them_back_and_remembers_why(node: NodeUnderTest) -> None:
    artifact = await registered(node)
    await upload(node, artifact)
    await let_pass(node, artifact)
    assert await node.services().artifacts.sweep() == 1
    assert files(node) == [f"{artifact['id']}.gone"]
    assert await bytes_held(node) == (0, 0)
    assert (await read(node, artifact))["status"] == "expired"
    left = await node.store.command("PTTL", keys.artifact(artifact["id"]))
    assert isinstance(left, int) and 86_300_000 < left <= 86_400_000
    assert refused(await upload(node, artifact)) == (410, "blob.gone")


async def test_the_sweep_leaves_what_is_not_over(node: NodeUnderTest) -> None:
    artifact = await registered(node)
    await upload(node, artifact)
    assert await node.services().artifacts.sweep() == 0
    assert (await complete(node, artifact)).status_code == 202
    assert await bytes_held(node) == (SIZE, SIZE)


async def test_an_available_artifact_is_kept_for_its_time(node: NodeUnderTest) -> None:
    artifact = await available(node)
    record = keys.artifact(artifact["id"])
    start, end = map(int, await node.store.command("HMGET", record, "available_at", "expires_at"))  # type: ignore[arg-type]
    assert end - start == 7 * 86_400_000
    await let_pass(node, artifact)
    assert refused(await node.client.get(f"{ARTIFACTS}/{artifact['id']}/content")) == (409, "artifact.state")
    await node.services().artifacts.sweep()
    manifest = await read(node, artifact)
    assert (manifest["status"], manifest["reason"]) == (
        "expired",
        "The time for which this node keeps an artifact is over.",
    )
    assert artifact["id"] not in files(node)
    assert await bytes_held(node) == (0, 0)


async def test_a_content_url_ends_with_the_artifact(node: NodeUnderTest) -> None:
    artifact = await available(node)
    now: Any = await node.store.command("TIME")
    soon = int(now[0]) * 1000 + 60_000
    await node.store.command("HSET", keys.artifact(artifact["id"]), "expires_at", soon)
    led = await node.client.get(f"{ARTIFACTS}/{artifact['id']}/content")
    head = await node.client.head(led.headers["location"])
    assert int(head.headers["cache-control"].rpartition("=")[2]) <= 60


async def test_what_cannot_be_verified_in_time_expires(node: NodeUnderTest) -> None:
    artifact = await registered(node)
    await upload(node, artifact)
    await complete(node, artifact)
    await let_pass(node, artifact)
    await node.services().verifier.handle(await completions(node, artifact))
    manifest = await read(node, artifact)
    assert manifest["status"] == "expired"
    assert "could not be verified" in manifest["reason"]
    assert await node.services().artifacts.sweep() == 1


async def test_bytes_are_given_back_once(node: NodeUnderTest) -> None:
    artifact, standing = await registered(node), await registered(node)
    await let_pass(node, artifact)
    store = ArtifactStore(node.store, 60, 3600)
    assert await store.due(10) == [artifact["id"]]
    assert sorted(await asyncio.gather(*(store.end(artifact["id"]) for _ in range(20)))) == [False] * 19 + [True]
    assert await bytes_held(node) == (SIZE, SIZE)
    assert await store.end(standing["id"]) is False
    assert await bytes_held(node) == (SIZE, SIZE)


async def test_a_sweep_that_died_after_deleting_is_finished_by_the_next(node: NodeUnderTest) -> None:
    artifact = await registered(node)
    await upload(node, artifact)
    await let_pass(node, artifact)
    services = node.services()
    await services.blobs.delete(artifact["id"])
    assert await bytes_held(node) == (SIZE, SIZE)
    assert await services.artifacts.sweep() == 1
    assert await bytes_held(node) == (0, 0)


async def test_a_rejected_artifact_counts_until_no_upload_can_bring_it_back(node: NodeUnderTest) -> None:
    artifact = await registered(node, media_type="image/png")
    await upload(node, artifact)
    await complete(node, artifact)
    services = node.services()
    await services.verifier.handle(await completions(node, artifact))
    assert (await read(node, artifact))["status"] == "rejected"
    assert await services.artifacts.sweep() == 0
    assert await bytes_held(node) == (SIZE, SIZE)
    await let_pass(node, artifact)
    assert await services.artifacts.sweep() == 1
    assert await bytes_held(node) == (0, 0)
    manifest = await read(node, artifact)
    assert (manifest["status"], manifest["reason"]) == (
        "rejected",
        "The uploaded content is plainly text/plain, not image/png.",
    )


async def test_the_worker_sweeps_away_what_is_over_and_what_was_begun(node: NodeUnderTest) -> None:
    artifact = await available(node)
    await let_pass(node, artifact)
    begun = node.settings.data_dir / "blobs" / "00" / "killed.part"
    begun.parent.mkdir(parents=True, exist_ok=True)
    begun.touch()
    os.utime(begun, (1, 1))
    async with node.worker(), asyncio.timeout(PATIENCE):
        while await bytes_held(node) != (0, 0) or begun.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert files(node) == [f"{artifact['id']}.gone"]
    assert (await read(node, artifact))["status"] == "expired"


async def test_a_client_holds_no_more_than_its_quota(node: NodeUnderTest) -> None:
    held = [await registered(node) for _ in range(3)]
    response = await register(node)
    assert refused(response) == (409, "artifact.quota")
    assert str(3 * SIZE) in response.json()["error"]
    assert await bytes_held(node) == (3 * SIZE, 3 * SIZE)
    await let_pass(node, held[0])
    await node.services().artifacts.sweep()
    assert (await register(node)).status_code == 201


async def test_the_node_holds_no_more_than_its_quota_whoever_brings_it(node: NodeUnderTest) -> None:
    for address in ("198.51.100.1", "198.51.100.2", "198.51.100.3"):
        async with node.client_at(address) as client:
            assert (await register(node, client=client)).status_code == 201
    assert len({ids.partition_of(f"198.51.100.{n}") for n in range(1, 4)}) > 1
    assert refused(await register(node, byte_size=2 * SIZE)) == (507, "store.full")
    assert await bytes_held(node) == (0, 0)


async def test_of_many_registrations_at_once_no_more_than_the_quota_are_kept(node: NodeUnderTest) -> None:
    responses = await asyncio.gather(*(register(node) for _ in range(10)))
    assert sorted(response.status_code for response in responses) == [201] * 3 + [409] * 7
    assert await bytes_held(node) == (3 * SIZE, 3 * SIZE)


async def test_a_repeated_registration_is_answered_when_the_node_is_full(node: NodeUnderTest) -> None:
    key = {"idempotency-key": "k1"}
    first = (await register(node, headers=key)).json()
    for _ in range(2):
        await registered(node)
    assert (await register(node, headers=key)).json()["id"] == first["id"]


async def test_a_purged_artifact_says_so_and_its_bytes_are_gone(node: NodeUnderTest) -> None:
    artifact = await available(node)
    services = node.services().artifacts
    for _ in range(2):
        manifest = await services.purge(artifact["id"])
        assert (manifest.status, manifest.reason) == ("rejected", "The operator of the node has removed the artifact.")
    assert artifact["id"] not in files(node)
    assert refused(await node.client.get(f"{ARTIFACTS}/{artifact['id']}/content")) == (409, "artifact.state")
    with pytest.raises(Refused, match=r"artifact\.unknown"):
        await services.purge(ids.new_id())


async def test_the_operator_sees_every_artifact_that_counts(node: NodeUnderTest) -> None:
    made = {(await registered(node))["id"] for _ in range(2)}
    async with node.client_at("198.51.100.9") as other:
        made.add((await register(node, client=other)).json()["id"])
    services = node.services().artifacts
    assert {manifest.id async for manifest in services.list()} == made
    (gone, *_) = made
    await let_pass(node, {"id": gone})
    await services.sweep()
    assert {manifest.id async for manifest in services.list()} == made - {gone}


@pytest.mark.parametrize("status", ["rejected", "expired"])
async def test_an_artifact_without_bytes_is_no_input_of_a_task_and_the_refusal_says_why(
    node: NodeUnderTest, status: str
) -> None:
    good, lost = await registered(node), await registered(node)
    if status == "rejected":
        await node.services().artifacts.purge(lost["id"])
    else:
        await let_pass(node, lost)
    task = {
        "publisher_id": "desk",
        "title": "Count the people in a table",
        "input_artifact_ids": [good["id"], lost["id"]],
    }
    response = await node.client.post("/api/v1/tasks", json=task)
    assert refused(response) == (422, "artifact.unusable")
    (issue,) = response.json()["detail"]
    assert issue["loc"] == ["body", "input_artifact_ids", 1]
    assert issue["msg"].startswith(f"This artifact is {status}")
    task["input_artifact_ids"] = [ids.new_id(), lost["id"]]
    unknown = (await node.client.post("/api/v1/tasks", json=task)).json()["detail"]
    assert [(issue["loc"][-1], issue["msg"]) for issue in unknown] == [(0, "no artifact has this id")]


async def test_a_lost_manifest_leaves_no_trace_in_the_sweep(node: NodeUnderTest) -> None:
    artifact = await registered(node)
    await let_pass(node, artifact)
    await node.store.command("DEL", keys.artifact(artifact["id"]))
    assert await node.services().artifacts.sweep() == 0
    assert await ArtifactStore(node.store, 60, 3600).due(10) == []
