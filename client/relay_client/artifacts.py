"""Artifacts, for large bytes: uploaded and downloaded as streams, and verified by their digest."""

import hashlib
import io
import mimetypes
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import IO, Literal, TypedDict

from relay_client.call import JSON, Call
from relay_client.carrier import Tries
from relay_client.errors import DigestMismatch, RelayError
from relay_client.follow import WAIT, changed
from relay_client.resource import M_co, Operation, Procedure, Resource
from relay_client.steps import Answer, Do, NoAnswer, Read, Send, Steps

PIECE = 256 * 1024  # bytes read at a time
STALLED = 60.0  # s without progress after which a transfer is given up
OCTETS = "application/octet-stream"

ArtifactStatus = Literal["registered", "verifying", "available", "rejected", "expired"]
Progress = Callable[[int, int], None]
"""Called with the number of bytes transferred so far, and the total."""


class Manifest(TypedDict):
    """The record of an artifact, without its bytes."""

    id: str
    status: ArtifactStatus
    reason: str | None
    publisher_id: str
    media_type: str
    byte_size: int
    digest_sha256: str
    filename: str | None
    created_at: str
    completed_at: str | None
    available_at: str | None
    expires_at: str | None
    url: str
    content_url: str


class RegisteredArtifact(Manifest):
    """An artifact that was just registered. PUT its bytes to `upload_url`; None if a repeated request came too late."""

    upload_url: str | None
    upload_headers: dict[str, str]
    upload_expires_at: str


class InlineContent(TypedDict):
    """The bytes of a small artifact: `text`, or `base64` if they are not text."""

    id: str
    media_type: str
    byte_size: int
    digest_sha256: str
    text: str | None
    base64: str | None


class Artifacts(Resource[M_co]):
    """Artifacts, for large bytes."""

    @Operation
    def register(
        self,
        publisher_id: str,
        media_type: str,
        byte_size: int,
        digest_sha256: str,
        *,
        filename: str | None = None,
        key: str | None = None,
    ) -> Call[RegisteredArtifact]:
        """Register an artifact by its size in bytes and its digest in hex. `upload` does this and sends the bytes."""
        fields = {
            "publisher_id": publisher_id,
            "media_type": media_type,
            "byte_size": byte_size,
            "digest_sha256": digest_sha256,
            "filename": filename,
        }
        digest = f"sha-256=:{b64encode(bytes.fromhex(digest_sha256)).decode()}:"
        headers = {**JSON, "Content-Digest": digest}
        return Call.post("artifacts", repeat="key", key=key, pace="artifact", headers=headers, fields=fields)

    @Operation
    def complete(self, artifact_id: str) -> Call[Manifest]:
        """Tell the node that the bytes are uploaded."""
        return Call.post("artifacts", artifact_id, "complete")

    @Operation
    def get(self, artifact_id: str, *, status: ArtifactStatus | None = None, wait: float = 0) -> Call[Manifest]:
        """Get a manifest. Waits up to `wait` seconds until its status is not `status` (default: the present one)."""
        return Call.get("artifacts", artifact_id, status=status, wait=wait)

    @Operation
    def store_inline(
        self,
        publisher_id: str,
        media_type: str,
        text: str | None = None,
        *,
        base64: str | None = None,
        filename: str | None = None,
        key: str | None = None,
    ) -> Call[Manifest]:
        """Store an artifact of up to 256 KiB in one request."""
        fields = {
            "publisher_id": publisher_id,
            "media_type": media_type,
            "text": text,
            "base64": base64,
            "filename": filename,
        }
        return Call.post("artifacts", "inline", repeat="key", key=key, pace="artifact", fields=fields)

    @Operation
    def read_inline(self, artifact_id: str) -> Call[InlineContent]:
        """Read an artifact of up to 256 KiB in one request."""
        return Call.get("artifacts", artifact_id, "inline")

    @Operation
    def content(self, artifact_id: str) -> Call[None]:
        """Ask where the bytes are. The answer is a redirect, which `download` follows."""
        call = Call.get("artifacts", artifact_id, "content")
        call.leads = call.may_be_nothing = True
        return call

    @Procedure
    def upload(
        self,
        source: Path | str | bytes,
        publisher_id: str,
        *,
        media_type: str | None = None,
        filename: str | None = None,
        progress: Progress | None = None,
    ) -> Steps[Manifest]:
        """Store a file or bytes, and return the manifest when they are verified. Raises RelayError if rejected."""
        source = Path(source) if isinstance(source, str) else source
        name = filename or (None if isinstance(source, bytes) else source.name)
        kind = media_type or mimetypes.guess_type(name or "")[0] or OCTETS
        size, digest = yield Do(partial(_measure, source))
        register = Artifacts.register.call(publisher_id, kind, size, digest, filename=name)
        made = yield from self.carry(register)
        if made["upload_url"] is None:
            raise RelayError(f"the time to upload artifact {made['id']} has passed")
        headers = {**made["upload_headers"], "Content-Length": str(size)}
        put = Send("PUT", made["upload_url"], headers, partial(_pieces, source, size, progress), STALLED)
        clock = self.relay.carrier.clock
        # A transfer may take as long as it makes progress: only the time between tries counts towards the deadline.
        tries = Tries(clock, self.relay.patience, "the upload broke")
        while True:
            began = clock()
            try:
                answer: Answer = yield put
            except NoAnswer as lost:
                tries.ends += clock() - began
                yield from tries.lost(lost)
                continue
            # The URL accepts only one upload: this refusal means that a try without an answer has succeeded.
            if answer.status < 300 or (tries.may_have_happened and _is_second_upload(answer)):
                break
            tries.ends += clock() - began
            if tries.may_have_happened and answer.headers.get("x-error-code") == "blob.busy":
                # The node is still storing the bytes of such a try, or has not yet noticed that it broke off.
                yield from tries.lost(NoAnswer("another upload is under way", unsent=False))
            else:
                yield from tries.refused(answer)
        manifest = yield from self.carry(Artifacts.complete.call(made["id"]))
        verified = Artifacts.get.call(made["id"], status="verifying", wait=WAIT)
        manifest = yield from changed(self, manifest, "verifying", verified)
        if manifest["status"] != "available":
            raise RelayError(f"the node has {manifest['status']} the artifact: {manifest['reason']}")
        return manifest

    @Procedure
    def download(self, artifact_id: str, target: Path | str, *, progress: Progress | None = None) -> Steps[Manifest]:
        """Save an artifact to a file, which appears when its digest is verified. Raises DigestMismatch.

        Until then, the bytes are in a new file `relay-<random>.part` in the same folder.
        """
        target = Path(target)
        part = target.with_name(f"relay-{token_hex(8)}.part")
        try:
            with part.open("xb") as file:
                manifest = yield from _fetch(self, artifact_id, file, progress)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        return manifest

    @Procedure
    def download_bytes(self, artifact_id: str) -> Steps[bytes]:
        """Return the verified bytes of an artifact. Raises DigestMismatch."""
        with io.BytesIO() as memory:
            yield from _fetch(self, artifact_id, memory, None)
            return memory.getvalue()


def _fetch(
    resource: "Artifacts[object]", artifact_id: str, file: IO[bytes], progress: Progress | None
) -> Steps[Manifest]:
    manifest = yield from resource.carry(Artifacts.get.call(artifact_id))
    clock = resource.relay.carrier.clock
    # As for an upload, the time of the transfer itself does not count.
    tries = Tries(clock, resource.relay.patience, "the download broke")
    while True:
        led = yield from resource.relay.carrier.answer(Artifacts.content.call(artifact_id), resource.relay.patience)
        url = resource.relay.carrier.url(led.headers["location"])
        file.seek(0)
        file.truncate()
        digest = hashlib.sha256()
        began = clock()
        try:
            answer: Answer = yield Send("GET", url, {}, timeout=STALLED, is_stream=True, within=STALLED)
            # Stop reading when there are more bytes than in the manifest: the body might have no end.
            while answer.status == 200 and file.tell() <= manifest["byte_size"] and (piece := (yield Read())):
                yield Do(partial(_keep, piece, digest.update, file))
                if progress:
                    yield Do(partial(progress, file.tell(), manifest["byte_size"]), blocks=False)
        except NoAnswer as lost:
            tries.ends += clock() - began
            yield from tries.lost(lost)
            continue
        if answer.status != 200:
            tries.ends += clock() - began
            yield from tries.refused(answer)
        elif digest.hexdigest() != manifest["digest_sha256"]:
            raise DigestMismatch(f"the bytes of artifact {artifact_id} do not match the digest in its manifest")
        else:
            return manifest


def _is_second_upload(answer: Answer) -> bool:
    """Whether the node or an S3 service (If-None-Match) refused a PUT because the bytes are already there."""
    return answer.status == 412 or answer.headers.get("x-error-code") == "blob.uploaded"


def _keep(piece: bytes, update: Callable[[bytes], object], file: IO[bytes]) -> None:
    update(piece)
    file.write(piece)


def _measure(source: Path | bytes) -> tuple[int, str]:
    digest = hashlib.sha256()
    size = 0
    with _opened(source) as file:
        while piece := file.read(PIECE):
            digest.update(piece)
            size += len(piece)
    return size, digest.hexdigest()


def _pieces(source: Path | bytes, size: int, progress: Progress | None) -> Iterator[bytes]:
    done = 0
    with _opened(source) as file:
        while piece := file.read(PIECE):
            yield piece
            done += len(piece)
            if progress:
                progress(done, size)


def _opened(source: Path | bytes) -> IO[bytes]:
    return io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")
