"""`relay-node admin artifacts`, on a real node."""

import msgspec

from node.artifacts.model import Manifest
from tests.admin.conftest import Admin
from tests.artifacts.calls import registered
from tests.support.node_under_test import NodeUnderTest


async def test_artifacts_are_listed_and_purged(node: NodeUnderTest, admin: Admin) -> None:
    artifact = await registered(node)
    ran = await admin("artifacts", "list", "--json")
    assert msgspec.convert(ran.data, list[Manifest])[0].id == artifact["id"]
    await registered(node)
    assert [len((await admin("artifacts", "list", "--limit", n, "--json")).data) for n in "123"] == [1, 2, 2]
    path = f"/api/v1/artifacts/{artifact['id']}"
    assert (await admin("artifacts", "purge", artifact["id"], "--dry-run")).status == 0
    assert (await node.client.get(path)).json()["status"] == "registered"
    ran = await admin("artifacts", "purge", artifact["id"], "nonsense", "--json")
    assert (ran.status, [each["outcome"] for each in ran.data]) == (1, ["purged", "artifact.unknown"])
    assert (await node.client.get(path)).json()["status"] == "rejected"
