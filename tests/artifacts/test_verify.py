"""The verdict on what is in the blob store, against what was registered."""

from hashlib import sha256

import pytest

from node.artifacts import verify
from node.artifacts.blobs.interface import Grant
from node.artifacts.sniff import HEAD_BYTES, plainly_other
from node.artifacts.verify import NOTHING_UPLOADED, judge
from tests.artifacts.blobs import BIG, DATA, BlobServer, grant_for

OTHER = bytes(reversed(DATA))
"""As many bytes."""


@pytest.mark.parametrize(
    ("grant", "status", "reason"),
    [
        (grant_for(), "available", ""),
        (grant_for(DATA + b"\n"), "rejected", "It has 22 bytes, not 23."),
        (grant_for(OTHER), "rejected", f"Its SHA-256 is {sha256(DATA).hexdigest()}, not that of the manifest."),
        (grant_for(media_type="image/png"), "rejected", "It is plainly text/plain, not image/png."),
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
