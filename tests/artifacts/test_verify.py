"""The verdict on the bytes in the blob store, compared with what was registered."""

from hashlib import sha256
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from node.artifacts import verify
from node.artifacts.blobs.disk import DiskStore
from node.artifacts.blobs.interface import Grant
from node.artifacts.outage import Outage
from node.artifacts.sniff import HEAD_BYTES, plainly_other
from node.artifacts.store import ArtifactStore, ArtifactVerdict
from node.artifacts.verify import COMPLETED, NOTHING_UPLOADED, Verifier, judge
from node.store.errors import StoreUnavailable
from node.store.outbox import Event, Postponed
from tests.artifacts.blobs import BIG, DATA, ID, SECRET, BlobServer, grant_for
from tests.artifacts.calls import complete, node_on, read, registered, upload
from tests.support.fake_store import FakeStore
from tests.support.servers import RedisServer

OTHER = bytes(reversed(DATA))
"""Other bytes of the same length."""


@pytest.mark.parametrize(
    ("grant", "status", "reason"),
    [
        (grant_for(), "available", ""),
        (grant_for(DATA + b"\n"), "rejected", "The uploaded content has 22 bytes, not 23."),
        (
            grant_for(OTHER),
            "rejected",
            f"The SHA-256 of the uploaded bytes is {sha256(DATA).hexdigest()}, not digest_sha256.",
        ),
        (grant_for(media_type="image/png"), "rejected", "The uploaded content is plainly text/plain, not image/png."),
        (grant_for(artifact_id="0199aaaa-0000-7000-8000-00000000002b"), "registered", NOTHING_UPLOADED),
    ],
    ids=["the same", "another size", "other bytes", "another type", "nothing"],
)
async def test_what_was_uploaded_is_held_against_the_manifest(
    server: BlobServer, grant: Grant, status: str, reason: str
) -> None:
    await server.put()
    verdict = await judge(server.store, grant)
    assert (verdict.status, verdict.reason) == (status, reason)


async def test_of_a_large_artifact_only_the_beginning_is_kept_in_memory(
    server: BlobServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads: list[bytes] = []

    def noted(head: bytes, media_type: str) -> str | None:
        heads.append(head)
        return plainly_other(head, media_type)

    monkeypatch.setattr(verify, "plainly_other", noted)
    await server.put(BIG, BIG)
    assert (await judge(server.store, grant_for(BIG))).status == "rejected"
    assert heads == [BIG[:HEAD_BYTES]]


class Unread(ArtifactStore):
    """An artifact store that is out of reach."""

    async def read(self, artifact_id: str) -> None:
        raise StoreUnavailable("out of reach")


async def test_completed_artifacts_are_to_be_verified_later_while_the_store_is_out_of_reach(server: BlobServer) -> None:
    verifier = Verifier(Unread(FakeStore(), 60, 3600), server.store)
    posted = Event("1-0", 0, "thread.posted", ID, {})
    await verifier.handle([posted])
    with pytest.raises(StoreUnavailable):
        await verifier.handle([posted, Event("2-0", 0, COMPLETED, ID, {"attempt": "1"})])


async def test_what_is_out_of_reach_is_to_be_verified_later_and_the_rest_is_verified_now(
    empty_redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the artifact would wait for a verdict until its time is over."""
    monkeypatch.setattr(verify, "OUTAGE", Outage())
    async with node_on(empty_redis, data_dir=tmp_path) as node:
        blobs = DiskStore(tmp_path / "blobs", "http://node.example", SECRET, 0)
        verifier = Verifier(ArtifactStore(node.store, 60, 3600), blobs)
        lost, good = [await registered(node) for _ in range(2)]
        for each in (lost, good):
            assert (await upload(node, each)).status_code == 200
            await complete(node, each)
        events = [Event(f"{n}-0", 0, COMPLETED, each["id"], {"attempt": "1"}) for n, each in enumerate((lost, good))]
        path = blobs.path(lost["id"])
        path.rename(tmp_path / "lost")
        path.symlink_to(path)
        with capture_logs() as logged, pytest.raises(Postponed):
            await verifier.handle(events)
        assert [line["event"] for line in logged if line["log_level"] != "info"] == ["blob store is out of reach"]
        assert [(await read(node, each))["status"] for each in (lost, good)] == ["verifying", "available"]
        path.unlink()
        (tmp_path / "lost").rename(path)
        await verifier.handle(events)
        assert (await read(node, lost))["status"] == "available"


class Slower(ArtifactStore):
    """The store of a worker whose verdict comes after that of another worker."""

    async def settle(self, artifact_id: str, attempt: str, verdict: ArtifactVerdict) -> bool:
        assert await super().settle(artifact_id, attempt, ArtifactVerdict("available"))
        return await super().settle(artifact_id, attempt, verdict)


async def test_a_verdict_that_comes_too_late_deletes_nothing(empty_redis: RedisServer, tmp_path: Path) -> None:
    async with node_on(empty_redis, data_dir=tmp_path) as node:
        blobs = DiskStore(tmp_path / "blobs", "http://node.example", SECRET, 0)
        artifact = await registered(node)
        await upload(node, artifact)
        await complete(node, artifact)
        blobs.path(artifact["id"]).write_bytes(OTHER)
        verifier = Verifier(Slower(node.store, 60, 3600), blobs)
        await verifier.handle([Event("1-0", 0, COMPLETED, artifact["id"], {"attempt": "1"})])
        assert (await read(node, artifact))["status"] == "available"
        assert await blobs.size(artifact["id"]) == len(OTHER)
