"""Clients of the embedded store share the threads that work on its files."""

import asyncio

from node.artifacts.blobs.disk_app import FILES_OF_A_SITE
from node.common.folder_lock import locked
from tests.artifacts.blobs import DATA, Node, grant_for, until

UPLOADS = 64
"""More than asyncio has threads."""


async def test_many_uploads_of_a_site_leave_others_their_turn(node: Node) -> None:
    await node.put()

    async def upload(number: int) -> int:
        grant = grant_for(artifact_id=f"0199aaaa-0000-7000-8000-1{number:011x}")
        url = await node.store.upload_url(grant, 900)
        return (await node.client.put(url, content=DATA, headers={"content-type": "text/csv", "site": "a"})).status_code

    with locked(node.store.directory, wait=True):  # as long as this is held, no upload gets any further
        uploads = [asyncio.create_task(upload(number)) for number in range(UPLOADS)]
        await until(lambda: len(node.files()) == 1 + FILES_OF_A_SITE)
        for _ in range(UPLOADS):
            assert (await node.get(site="b")).content == DATA
        assert len(node.files()) == 1 + FILES_OF_A_SITE
    assert await asyncio.gather(*uploads) == [200] * UPLOADS
