"""How much addresses and networks may hold in artifacts, especially in artifacts that are registered but never
uploaded.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from node.artifacts.api import COMPLETION_COST
from node.artifacts.blobs.interface import Grant
from node.artifacts.store import LEAST_RESERVED, ArtifactStore, ArtifactVerdict
from node.artifacts.verify import COMPLETED, CONCURRENT_VERIFICATIONS, SITE_VERIFICATIONS, Verifier
from node.config import Limit, Limits
from node.run.blobs import blobs_of
from node.share.site import SITE_SHARE, site_of
from node.store import ids, keys
from node.store.outbox import Event
from node.web.throughput import BURST_SECONDS
from tests.artifacts.blobs import DATA
from tests.artifacts.calls import ARTIFACTS, available, complete, node_on, read, register, registered, upload
from tests.support.answers import refused
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import WOKEN, RedisServer, eventually

MIB = 1024 * 1024
LARGEST = 100 * MIB
MINUTE = 10
"""Number of registrations that the limit allows one address in a minute."""

RESERVED, QUOTA, FULL = (409, "artifact.reserved"), (409, "artifact.quota"), (507, "store.full")


def site(number: int, hosts: int) -> list[str]:
    """Return addresses in one IPv6 /48, each in its own /64."""
    return [f"2001:db8:{number:x}:{host:x}::1" for host in range(hosts)]


async def asked(node: NodeUnderTest, address: str, times: int = MINUTE, byte_size: int = LARGEST) -> list[object]:
    """Register one artifact after the other from an address. Returns 201 for each, or status and code of the
    refusal.
    """
    async with node.client_at(address) as client:
        responses = [await register(node, client=client, byte_size=byte_size) for _ in range(times)]
    return [response.status_code if response.status_code == 201 else refused(response) for response in responses]


async def asked_at_once(node: NodeUnderTest, addresses: Sequence[str], **given: int) -> Counter[object]:
    """Do the same from many addresses at the same time."""
    found = await asyncio.gather(*(asked(node, address, **given) for address in addresses))
    return Counter(outcome for each in found for outcome in each)


async def sums(node: NodeUnderTest) -> Counter[str]:
    """Return the node's counts for artifacts. A client that holds nothing must have no count at all, not even a
    zero.
    """
    found: Counter[str] = Counter()
    for name in await node.names("artifact-bytes:*"):
        flat: Any = await node.store.command("HGETALL", name)
        found.update({field.decode(): int(value) for field, value in zip(flat[::2], flat[1::2], strict=True)})
    if not found["all"]:
        del found["all"]  # this field stays in each partition
    return found


async def completed(node: NodeUnderTest, address: str) -> Event:
    """Let a client at the address upload an artifact, and return the event for the worker."""
    async with node.client_at(address) as client:
        artifact = (await register(node, client=client)).json()
    assert (await upload(node, artifact)).status_code == 200
    await complete(node, artifact)
    return Event("1-0", ids.partition_of_id(artifact["id"]), COMPLETED, artifact["id"], {"attempt": "1"})


async def end(node: NodeUnderTest, artifact: dict[str, Any]) -> None:
    """Let the artifact's time be over, and give back what it held."""
    await node.store.command("ZADD", keys.artifacts(ids.partition_of_id(artifact["id"])), "XX", 1, artifact["id"])
    assert await ArtifactStore(node.store, 60, 3600).end(artifact["id"])


async def test_what_one_network_registers_and_never_uploads_leaves_others_all_that_they_have_today(
    node: NodeUnderTest,
) -> None:
    outcomes = await asked_at_once(node, site(1, 21))
    assert set(outcomes) == {201, RESERVED}
    assert outcomes[201] * LARGEST < node.settings.artifact_total_bytes / 3
    for honest in ("203.0.113.7", *site(2, 1)):
        assert await asked(node, honest) == [201] * MINUTE


async def test_no_number_of_greedy_networks_leaves_nothing_to_the_next(node: NodeUnderTest) -> None:
    for number in range(1, 9):
        outcomes = await asked_at_once(node, site(number, 9))
        assert set(outcomes) <= {201, RESERVED, QUOTA}
    for number in range(1, 41):
        assert set(await asked(node, f"198.51.100.{number}")) <= {201, RESERVED, QUOTA}
    assert await asked(node, "203.0.113.7", byte_size=MIB // 4) == [201] * MINUTE


async def test_an_address_registers_on_when_it_has_uploaded_or_what_it_left_has_expired(
    empty_redis: RedisServer, tmp_path: Path
) -> None:
    no_limit = Limits(artifact=Limit(0, 1))
    async with node_on(empty_redis, data_dir=tmp_path, artifact_total_bytes=LARGEST, limits=no_limit) as node:
        first, second, *_ = [await registered(node) for _ in range(12)]  # each counts as 8 MiB
        assert refused(await register(node)) == RESERVED
        assert (await upload(node, first)).status_code == 200
        assert refused(await register(node)) == RESERVED, "nobody has seen the bytes"
        await complete(node, first)
        async with node.worker():
            assert (await read(node, first, wait=20, status="verifying"))["status"] == "available"
        assert (await register(node)).status_code == 201
        assert refused(await register(node)) == RESERVED
        await end(node, second)
        assert (await register(node)).status_code == 201
        assert refused(await register(node)) == RESERVED
        assert await asked(node, "198.51.100.1", byte_size=len(DATA)) == [201] * MINUTE


async def test_completing_what_was_not_uploaded_makes_no_room(empty_redis: RedisServer, tmp_path: Path) -> None:
    no_limit = Limits(artifact=Limit(0, 1))
    async with node_on(empty_redis, data_dir=tmp_path, artifact_total_bytes=LARGEST, limits=no_limit) as node:
        artifact, *_ = [await registered(node) for _ in range(12)]
        await complete(node, artifact)
        assert refused(await register(node)) == RESERVED
        async with node.worker():
            assert (await read(node, artifact, wait=20, status="verifying"))["status"] == "registered"
        assert refused(await register(node)) == RESERVED


@pytest.mark.usefixtures("no_refill")
async def test_completing_again_and_again_counts_as_bytes_that_were_moved(
    empty_redis: RedisServer, tmp_path: Path
) -> None:
    # Without an upload, nothing else limits completions: one address could make workers look 200 times a second.
    async with node_on(empty_redis, data_dir=tmp_path, client_throughput=COMPLETION_COST) as node:
        artifact = await registered(node)
        answers = [await complete(node, artifact) for _ in range(2 * int(BURST_SECONDS))]
        assert {answer.status_code for answer in answers[: int(BURST_SECONDS)]} == {202}
        assert refused(answers[-1]) == (429, "limit.throughput")
        async with node.client_at(site(1, 1)[0]) as other:
            assert (await other.get(f"{ARTIFACTS}/{artifact['id']}")).status_code == 200


async def test_a_network_holds_eight_times_the_bytes_of_an_address(empty_redis: RedisServer, tmp_path: Path) -> None:
    quotas = {"artifact_client_bytes": LARGEST, "artifact_reserved_percent": 100}
    async with node_on(empty_redis, data_dir=tmp_path, **quotas) as node:
        assert await asked_at_once(node, site(1, 11), times=1) == {201: SITE_SHARE, QUOTA: 3}
        assert await asked(node, site(2, 1)[0], times=2) == [201, QUOTA]
        assert await asked(node, "203.0.113.7", times=2) == [201, QUOTA]
        said = (await register(node, byte_size=1)).json()["error"]
        assert f"artifacts: 1, bytes: {LARGEST}" in said


async def test_an_address_and_a_network_hold_so_many_artifacts_however_small(
    empty_redis: RedisServer, tmp_path: Path
) -> None:
    async with node_on(empty_redis, data_dir=tmp_path, client_artifacts=2) as node:
        artifact, _ = await available(node), await registered(node)
        assert refused(await register(node)) == QUOTA
        await end(node, artifact)
        assert (await register(node)).status_code == 201
        outcomes = await asked_at_once(node, site(1, 20), times=3, byte_size=1)
        assert outcomes == {201: 2 * SITE_SHARE, QUOTA: 60 - 2 * SITE_SHARE}


async def test_what_was_counted_is_given_back_whatever_became_of_it(node: NodeUnderTest) -> None:
    store = ArtifactStore(node.store, 60, 3600)
    left, rejected, good, purged = [(await registered(node)) for _ in range(4)]
    async with node.client_at(site(1, 1)[0]) as client:
        elsewhere = (await register(node, client=client)).json()
    size = len(DATA)
    counted = await sums(node)
    assert counted == {
        "all": 5 * size,
        "203.0.113.7": 4 * size,
        "number:203.0.113.7": 4,
        "reserved:203.0.113.7": 4 * LEAST_RESERVED,
        "2001:db8:1::/64": size,
        "number:2001:db8:1::/64": 1,
        "reserved:2001:db8:1::/64": LEAST_RESERVED,
        "2001:db8:1::/48": size,
        "number:2001:db8:1::/48": 1,
        "reserved:2001:db8:1::/48": LEAST_RESERVED,
    }
    for artifact, verdict in (
        (good, ArtifactVerdict("available")),
        (rejected, ArtifactVerdict("rejected", "It is not.")),
    ):
        await complete(node, artifact)
        assert await store.settle(artifact["id"], "1", verdict)
    assert counted - await sums(node) == {"reserved:203.0.113.7": LEAST_RESERVED}, "what is rejected may still come"
    await complete(node, purged)
    assert await store.settle(purged["id"], "1", ArtifactVerdict("available"))
    assert await store.withdraw(purged["id"], "by a test")
    await end(node, left)
    await end(node, good)
    held = await sums(node)
    assert (held["number:203.0.113.7"], held["reserved:203.0.113.7"]) == (2, LEAST_RESERVED)
    for artifact in (rejected, purged, elsewhere):
        await end(node, artifact)
    assert not await sums(node)


async def test_all_of_a_network_is_in_one_partition_and_its_addresses_have_limits_of_their_own(
    node: NodeUnderTest,
) -> None:
    first, second = site(1, 2)
    idempotency = {"idempotency-key": "the-same-key-of-two"}
    found: list[dict[str, Any]] = []
    for address in (first, second):
        async with node.client_at(address) as client:
            found += [(await register(node, client=client, headers=idempotency)).json() for _ in range(2)]
        assert await asked(node, address, byte_size=1) == [201] * (MINUTE - 2) + [(429, "limit.exceeded")] * 2
    assert found[0]["id"] == found[1]["id"] != found[2]["id"] == found[3]["id"]
    assert {ids.partition_of_id(each["id"]) for each in found} == {ids.partition_of("2001:db8:1::/48")}


async def test_an_artifact_of_an_earlier_version_is_read_completed_and_ended(node: NodeUnderTest) -> None:
    """Such an artifact is in the partition of its address, and its record has neither a site nor a reservation."""
    client = "2001:db8:1:2::/64"
    partition = ids.partition_of(client)
    assert partition != ids.partition_of(site_of(client))
    artifact = {"id": ids.unlisted_id(partition)}
    new = await registered(node)
    fields: Any = await node.store.command("HGETALL", keys.artifact(new["id"]))
    kept = dict(zip(fields[::2], fields[1::2], strict=True)) | {b"client": client.encode()}
    flat = [part for name, value in kept.items() if name not in {b"site", b"reserved"} for part in (name, value)]
    await node.store.command("HSET", keys.artifact(artifact["id"]), *flat)
    await node.store.command("ZADD", keys.artifacts(partition), kept[b"expires_at"], artifact["id"])
    for field in (client, "all"):
        await node.store.command("HINCRBY", keys.artifact_bytes(partition), field, len(DATA))
    assert (await read(node, artifact))["status"] == "registered"
    assert (await complete(node, artifact)).json()["status"] == "verifying"
    assert await ArtifactStore(node.store, 60, 3600).settle(artifact["id"], "1", ArtifactVerdict("available"))
    assert (await node.client.get(f"{ARTIFACTS}/{artifact['id']}/content")).status_code == 307
    await end(node, artifact)
    await end(node, new)
    assert not await sums(node)


@pytest.mark.parametrize(
    ("client", "site"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("unix", "unix"),
        ("2001:db8:1:2::/64", "2001:db8:1::/48"),
        ("2001:db8:1:ffff::/64", "2001:db8:1::/48"),
        ("::/64", "::/48"),
    ],
)
def test_the_site_of_a_client(client: str, site: str) -> None:
    assert site_of(client) == site


async def test_what_does_not_fit_on_the_disk_is_refused_at_once(empty_redis: RedisServer, tmp_path: Path) -> None:
    async with node_on(empty_redis, data_dir=tmp_path, blob_reserve=2**60) as node:
        assert refused(await register(node)) == (507, "store.full")


async def test_it_takes_many_addresses_or_networks_to_leave_nothing_to_others(
    empty_redis: RedisServer, tmp_path: Path
) -> None:
    settings = {"artifact_total_bytes": 200 * MIB, "artifact_client_bytes": 10 * MIB, "artifact_reserved_percent": 100}
    async with node_on(empty_redis, data_dir=tmp_path, **settings) as node:
        for number in range(40):
            outcomes = await asked(node, f"203.0.113.{number}", byte_size=MIB)
            assert set(outcomes) <= {201, QUOTA}
        for number in range(10):
            assert FULL not in await asked_at_once(node, site(number, 2), byte_size=MIB)
        assert await asked(node, "198.51.100.7", times=2, byte_size=MIB // 10) == [201, 201]


async def test_what_takes_long_to_verify_keeps_only_its_own_site_waiting(
    empty_redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node_on(empty_redis, data_dir=tmp_path, limits=Limits(artifact=Limit(0, 1))) as node:
        greedy = [await completed(node, address) for address in site(1, CONCURRENT_VERIFICATIONS)]
        honest = await completed(node, "203.0.113.7")
        blobs = blobs_of(node.settings)
        reads, may_end = blobs.read, asyncio.Event()
        begun: set[str] = set()

        async def read_slowly(grant: Grant) -> AsyncIterator[bytes]:
            begun.add(grant.id)
            if grant.id != honest.entity:
                await may_end.wait()
            async for chunk in reads(grant):
                yield chunk

        monkeypatch.setattr(blobs, "read", read_slowly)
        verifier = Verifier(ArtifactStore(node.store, 60, 3600), blobs)
        async with asyncio.timeout(WOKEN):
            slow = asyncio.create_task(verifier.handle(greedy))
            await eventually(lambda: len(begun) == SITE_VERIFICATIONS)
            await verifier.handle([honest])
            assert (await read(node, {"id": honest.entity}))["status"] == "available"
            assert len(begun) == SITE_VERIFICATIONS + 1
            may_end.set()
            await slow
        assert {(await read(node, {"id": each.entity}))["status"] for each in greedy} == {"available"}
