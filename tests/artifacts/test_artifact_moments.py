"""The exact milliseconds at which an artifact's times end, and the exact bounds of what a client may hold."""

from typing import Any

import msgspec
import pytest
import pytest_asyncio

from node.artifacts.record import StoredArtifact
from node.artifacts.store import (
    COMPLETION_MS,
    LEAST_RESERVED,
    VERIFICATION_MS,
    ArtifactQuotas,
    ArtifactStore,
    ArtifactVerdict,
)
from node.common.refusal import Refused
from tests.support.fake_store import Clock, FakeStore
from tests.support.rates import Unlimited

HALF_A_MILLISECOND = 0.0005
AVAILABLE = ArtifactVerdict("available")
FIELDS = {"publisher_id": "desk", "media_type": "text/plain", "digest_sha256": "00" * 32}
MANY = ArtifactQuotas(client=1000, number=0, reserved_percent=100, reserved_always=2**30, total=2**40, free=None)


@pytest_asyncio.fixture
async def artifacts(clock: Clock) -> ArtifactStore:
    return ArtifactStore(FakeStore(), 60, 100)


async def registered(artifacts: ArtifactStore, size: int = 10, **quotas: Any) -> StoredArtifact:
    wanted = msgspec.structs.replace(MANY, **quotas)
    stored, _ = await artifacts.register(Unlimited("203.0.113.1"), None, size, wanted, FIELDS)
    return stored


async def status_of(artifacts: ArtifactStore, artifact: StoredArtifact) -> str:
    stored = await artifacts.read(artifact.id)
    return stored.status if stored else ""


async def test_what_is_not_completed_in_time_ends_in_that_millisecond(clock: Clock, artifacts: ArtifactStore) -> None:
    artifact = await registered(artifacts)
    clock.advance(COMPLETION_MS / 1000 - HALF_A_MILLISECOND)
    assert await status_of(artifacts, artifact) == "registered"
    assert await artifacts.due(10) == []
    assert not await artifacts.end(artifact.id)
    clock.advance(HALF_A_MILLISECOND)
    late = await artifacts.complete(artifact.id)
    assert late
    assert (late.status, await artifacts.due(10)) == ("expired", [artifact.id])
    assert await artifacts.end(artifact.id)
    assert await artifacts.total() == 0


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_verdict_counts_until_the_time_for_it_is_over(
    clock: Clock, artifacts: ArtifactStore, *, is_late: bool
) -> None:
    artifact = await registered(artifacts)
    await artifacts.complete(artifact.id)
    clock.advance(VERIFICATION_MS / 1000 - (0 if is_late else HALF_A_MILLISECOND))
    assert await artifacts.due(10) == ([artifact.id] if is_late else [])
    assert await artifacts.settle(artifact.id, "1", AVAILABLE) is not is_late
    assert await status_of(artifacts, artifact) == ("expired" if is_late else "available")


@pytest.mark.parametrize(
    ("bound", "refusal"),
    [
        ({"client": 30}, "artifact.quota"),
        ({"total": 30}, "store.full"),
        ({"number": 2}, "artifact.quota"),
        ({"reserved_always": 2 * LEAST_RESERVED, "reserved_percent": 0}, "artifact.reserved"),
    ],
)
async def test_a_client_may_hold_what_it_may_hold_and_no_more(
    artifacts: ArtifactStore, bound: dict[str, int], refusal: str
) -> None:
    await registered(artifacts, 10, **bound)
    await registered(artifacts, 20, **bound)
    with pytest.raises(Refused, match=refusal):
        await registered(artifacts, 1, **bound)


async def test_what_the_blob_store_has_room_for_is_taken(artifacts: ArtifactStore) -> None:
    await registered(artifacts, 10, free=10)
    with pytest.raises(Refused, match=r"store\.full"):
        await registered(artifacts, 11, free=10)


async def test_only_the_last_attempt_is_judged(artifacts: ArtifactStore) -> None:
    artifact = await registered(artifacts)
    await artifacts.complete(artifact.id)
    assert await artifacts.settle(artifact.id, "1", ArtifactVerdict("registered", "Nothing was uploaded."))
    await artifacts.complete(artifact.id)
    assert not await artifacts.settle(artifact.id, "1", AVAILABLE)
    assert await artifacts.settle(artifact.id, "2", AVAILABLE)


async def test_what_is_available_ends_after_its_life_and_frees_what_it_had_and_no_more(
    clock: Clock, artifacts: ArtifactStore
) -> None:
    bound = {"reserved_always": 2 * LEAST_RESERVED, "reserved_percent": 0}
    first = await registered(artifacts, **bound)
    await artifacts.complete(first.id)
    await artifacts.settle(first.id, "1", AVAILABLE)
    await registered(artifacts, **bound)
    clock.advance(100 - HALF_A_MILLISECOND)
    assert await artifacts.due(10) == []
    clock.advance(HALF_A_MILLISECOND)
    assert await artifacts.due(10) == [first.id]
    assert await artifacts.end(first.id)
    assert not await artifacts.withdraw(first.id, "It has no bytes to lose.")
    await registered(artifacts, **bound)
    with pytest.raises(Refused, match=r"artifact\.reserved"):
        await registered(artifacts, **bound)


async def test_the_operator_is_told_of_what_is_kept_though_others_end_while_it_is_read(
    clock: Clock, artifacts: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.artifacts.store.PAGE_SIZE", 2)
    ended = [await registered(artifacts) for _ in range(2)]
    clock.advance(1)
    kept = {(await registered(artifacts)).id for _ in range(3)}
    clock.advance(COMPLETION_MS / 1000 - 1)
    found: list[str] = []
    async for each in artifacts.kept():
        found.append(each.id)
        if len(found) == 1:
            assert [await artifacts.end(each.id) for each in ended] == [True, True]
    assert kept <= {*found}


async def test_what_is_rejected_stays_so_for_its_first_reason(artifacts: ArtifactStore) -> None:
    artifact = await registered(artifacts)
    assert [await artifacts.withdraw(artifact.id, reason) for reason in ("first", "second")] == [True, False]
    stored = await artifacts.read(artifact.id)
    assert stored is not None
    assert (stored.status, stored.reason) == ("rejected", "first")


async def test_what_is_rejected_ends_as_soon_as_no_upload_can_bring_it(clock: Clock, artifacts: ArtifactStore) -> None:
    artifact = await registered(artifacts)
    await artifacts.complete(artifact.id)
    assert await artifacts.settle(artifact.id, "1", ArtifactVerdict("rejected", "It is not what it was called."))
    clock.advance(COMPLETION_MS / 1000 - HALF_A_MILLISECOND)
    assert await artifacts.due(10) == []
    clock.advance(HALF_A_MILLISECOND)
    assert await artifacts.due(10) == [artifact.id]


async def test_what_the_operator_rejects_ends_at_once_if_no_upload_can_bring_it(
    clock: Clock, artifacts: ArtifactStore
) -> None:
    artifact = await registered(artifacts)
    clock.advance(COMPLETION_MS / 1000 - 1)
    await artifacts.complete(artifact.id)
    await artifacts.settle(artifact.id, "1", AVAILABLE)
    clock.advance(1)
    assert await artifacts.due(10) == []
    assert await artifacts.withdraw(artifact.id, "It is not wanted here.")
    assert await artifacts.due(10) == [artifact.id]
