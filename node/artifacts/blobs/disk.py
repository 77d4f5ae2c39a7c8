"""The embedded blob store: one file per artifact under a directory, no database.

    <directory>/<last two characters of the id>/<id>          the bytes, whole and of the right digest
                                               /<id>.part     an upload in progress, locked by its writer
                                               /<id>.gone     deleted; the id takes no second upload

A file gets its final name only once it is complete and on the disk, so everything that can be read was verified. The
kernel holds the lock on `.part`, and drops it when the writer is killed. HTTP is in `disk_app`; states and quotas are
in `node.artifacts.service`. A function whose docstring says "Blocks" must be called in a thread.
"""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, TypeVar

from node.artifacts.blobs.capability import GrantSigner
from node.artifacts.blobs.interface import CHUNK_BYTES, PROBE, BlobMissing, BlobUnavailable, Grant, blob_id
from node.artifacts.blobs.upload import PartialUpload, gone_mark, lock_file, partial_file
from node.common.refusal import Refused

PREFIX = "/blobs/"
"""Path under which `disk_app` answers. It is followed by a capability."""

GONE_SECONDS = 3600.0
"""Seconds for which a deleted id stays refused: longer than an upload URL lives (900 s) plus the longest upload (900
s)."""

STARTING_SECONDS = 10.0
"""Seconds without a write after which an upload that is not locked has no writer any more."""

_T = TypeVar("_T")


class DiskStore:
    """A BlobStore on a local directory that every process of the node can reach.

    `base_url` is the node's public address. `reserve` is the number of bytes that uploads leave free on the file
    system, as the embedded Redis writes its log to the same disk.
    """

    def __init__(self, directory: Path, base_url: str, secret: str, reserve: int) -> None:
        self.directory = directory
        self.signer = GrantSigner(secret)
        self._base = base_url.rstrip("/") + PREFIX
        self._reserve = reserve

    def upload_headers(self, grant: Grant) -> Mapping[str, str]:
        return {"Content-Type": grant.media_type}

    async def upload_url(self, grant: Grant, seconds: int, begins: float | None = None) -> str:
        return self._base + self.signer.upload(grant, seconds, begins)

    async def content_url(self, grant: Grant, filename: str | None, seconds: int) -> str:
        return self._base + self.signer.download(grant, filename, seconds)

    async def write(self, grant: Grant, content: bytes) -> None:
        upload = self.new_upload(grant)

        def store() -> None:
            try:
                upload.start()
                upload.write(content)
                upload.finish()
            finally:
                upload.abort()

        await _in_thread(store)

    async def size(self, artifact_id: str) -> int | None:
        path = self.path(artifact_id)
        with suppress(FileNotFoundError):
            return (await _in_thread(path.stat)).st_size
        return None

    async def read(self, grant: Grant) -> AsyncIterator[bytes]:
        opening = asyncio.ensure_future(_in_thread(lambda: self.open(grant.id)))
        try:
            file = await asyncio.shield(opening)
        except FileNotFoundError:
            raise BlobMissing(grant.id) from None
        except asyncio.CancelledError:
            opening.add_done_callback(_close_if_open)  # the thread goes on, and nobody else closes the file
            raise
        left = grant.byte_size
        with file:
            while chunk := await _in_thread(lambda: file.read(CHUNK_BYTES)):
                left -= len(chunk)
                yield chunk
        if left:
            raise BlobUnavailable(f"{self.path(grant.id)} has not {grant.byte_size} bytes")

    async def delete(self, artifact_id: str) -> None:
        await _in_thread(lambda: self._delete(artifact_id))

    async def free_bytes(self) -> int | None:
        return await _in_thread(self._free)

    async def check(self) -> None:
        await _in_thread(self._try_writing)

    async def sweep(self) -> None:
        await _in_thread(self._sweep)

    async def close(self) -> None:
        """Do nothing: no file stays open between calls."""

    def path(self, artifact_id: str) -> Path:
        """Return the file of an artifact, whether or not it exists. Raises ValueError if `artifact_id` is not an id."""
        return self.directory / blob_id(artifact_id)[-2:] / artifact_id

    def open(self, artifact_id: str) -> BinaryIO:
        """Open the bytes for reading. Blocks. Raises FileNotFoundError."""
        return self.path(artifact_id).open("rb", buffering=0)

    def new_upload(self, grant: Grant) -> PartialUpload:
        """Return an upload of `grant` that is not started yet."""
        return PartialUpload(self.path(grant.id), grant, self._reserve)

    def _free(self) -> int:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return max(0, shutil.disk_usage(self.directory).free - self._reserve)

    def _try_writing(self) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryFile(dir=self.directory) as file:
            file.write(PROBE)
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)
            if file.read() != PROBE:
                raise BlobUnavailable(f"{self.directory} does not give back what was written")

    def _delete(self, artifact_id: str) -> None:
        final = self.path(artifact_id)
        gone = gone_mark(final)
        final.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            final.rename(gone)  # needs no new file, so it works on a full disk
            os.truncate(gone, 0)
        except FileNotFoundError:
            gone.touch(0o600)
            os.truncate(gone, 0)  # a killed process may have renamed the file and not truncated it
            # The order matters. An upload may end in the meantime, and its process be killed before it sees the mark:
            # then either it has nothing left to rename, or its final file is removed here.
            partial_file(final).unlink(missing_ok=True)
            final.unlink(missing_ok=True)

    def _sweep(self) -> None:
        for path in self.directory.glob("??/*.part"):
            with suppress(Refused, FileNotFoundError):
                if path.stat().st_mtime > time.time() - STARTING_SECONDS:
                    continue  # its writer may have created it and not locked it yet
                fd = lock_file(path)  # it was not locked, so its writer is dead
                path.unlink(missing_ok=True)
                os.close(fd)
        for path in self.directory.glob("??/*.gone"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < time.time() - GONE_SECONDS:
                    path.unlink()


def _close_if_open(opening: "asyncio.Future[BinaryIO]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


async def _in_thread(work: Callable[[], _T]) -> _T:
    """Run blocking work in a thread. Raises FileNotFoundError unchanged, and any other OSError as BlobUnavailable."""
    try:
        return await asyncio.to_thread(work)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BlobUnavailable(str(error)) from error
