"""Anybody who knows an artifact's id may complete it. Completing it too early costs its publisher nothing."""

from typing import Any

import pytest

from node.run.services import Services
from node.store import keys
from tests.artifacts.calls import complete, read, registered, upload
from tests.artifacts.test_artifacts_ends import completions
from tests.support.node_under_test import NodeUnderTest


@pytest.fixture
def services(node: NodeUnderTest) -> Services:
    return node.services()


async def verify_while(
    node: NodeUnderTest, services: Services, artifact: dict[str, Any], *, uploads: bool
) -> dict[str, Any]:
    """Return the manifest after a verification during which the artifact is completed again, after an upload if
    `uploads`.
    """
    find = services.blobs.size

    async def look(artifact_id: str) -> int | None:
        found = await find(artifact_id)
        if uploads:
            assert (await upload(node, artifact)).status_code == 200
        assert (await complete(node, artifact)).status_code == 202
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(services.blobs, "size", look)
        await services.verifier.handle(await completions(node, artifact))
    return await read(node, artifact)


async def test_a_completion_that_comes_while_nothing_is_found_has_the_bytes_verified(
    node: NodeUnderTest, services: Services
) -> None:
    artifact = await registered(node)
    early = (await complete(node, artifact)).json()
    await node.a_millisecond_later()
    manifest = await verify_while(node, services, artifact, uploads=True)
    assert (manifest["status"], manifest["reason"]) == ("verifying", None)
    assert manifest["completed_at"] > early["completed_at"]
    _, *another = await completions(node, artifact)
    await services.verifier.handle(another)
    assert (await read(node, artifact))["status"] == "available"


async def test_each_such_completion_is_worth_one_verification(node: NodeUnderTest, services: Services) -> None:
    artifact = await registered(node)
    await complete(node, artifact)
    assert (await verify_while(node, services, artifact, uploads=False))["status"] == "verifying"
    _, *another = await completions(node, artifact)
    await services.verifier.handle(another)
    manifest = await read(node, artifact)
    assert (manifest["status"], manifest["completed_at"]) == ("registered", None)
    assert manifest["expires_at"] == artifact["expires_at"]


async def test_no_completion_keeps_room_for_what_can_no_longer_be_uploaded(
    node: NodeUnderTest, services: Services
) -> None:
    artifact = await registered(node)
    await complete(node, artifact)
    await node.store.command("HSET", keys.artifact(artifact["id"]), "upload_until", 1)
    assert (await verify_while(node, services, artifact, uploads=False))["status"] == "expired"
