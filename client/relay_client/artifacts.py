"""Large bytes beside the messages: uploaded and downloaded as streams, and checked by their digest."""

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

PIECE = 256 * 1024  # bytes read at once
STALLED = 60.0  # s without progress after which a transfer is given up
OCTETS = "application/octet-stream"

ArtifactStatus = Literal["registered", "verifying", "available", "rejected", "expired"]
Progress = Callable[[int, int], None]
"""Called with the number of bytes transferred so far, and of all."""


class Manifest(TypedDict):
    """What an artifact is, and whether its bytes are there."""

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
    """An artifact just registered; `upload_url` is where to PUT its bytes, None if a repeated request came too late."""

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
    """Large bytes beside the messages."""

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
        """A manifest; waits up to `wait` seconds for another status than `status`, or else than the present one."""
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
        """Ask where the bytes are: the answer is a redirect, which `download` follows."""
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
        """Store a file or bytes, and return the manifest once they are verified. Raises RelayError if rejected."""
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
        # A transfer may take as long as it makes progress: only the time between tries counts in the deadline.
        tries = Tries(clock, self.relay.patience, "the upload broke")
        while True:
            began = clock()
            try:
                answer: Answer = yield put
            except NoAnswer as lost:
                tries.ends += clock() - began
                yield from tries.lost(lost)
                continue
            # The URL takes one upload only: this refusal means that a try without an answer has succeeded.
            if answer.status < 300 or (tries.may_have_happened and _is_second_upload(answer)):
                break
            tries.ends += clock() - began
            if tries.may_have_happened and answer.headers.get("x-error-code") == "blob.busy":
                # Such a try, whose bytes the node is storing; or one that broke off, which it has not noticed yet.
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
        """Save an artifact. The file appears once its digest is right; until then its bytes are in the same folder, in
        a new file `relay-<random>.part`. Raises DigestMismatch.
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
        """The bytes of an artifact, verified. Raises DigestMismatch."""
        with io.BytesIO() as memory:
            yield from _fetch(self, artifact_id, memory, None)
            return memory.getvalue()


def _fetch(
    resource: "Artifacts[object]", artifact_id: str, file: IO[bytes], progress: Progress | None
) -> Steps[Manifest]:
    manifest = yield from resource.carry(Artifacts.get.call(artifact_id))
    clock = resource.relay.carrier.clock
    # As for an upload, the time in which bytes move does not count.
    tries = Tries(clock, resource.relay.patience, "the download broke")
    while True:
        led = yield from resource.relay.carrier.answer(Artifacts.content.call(artifact_id), resource.relay.patience)
        url = resource.relay.carrier.url(led.headers["location"])
        file.seek(0)
        file.truncate()
        digest = hashlib.sha256()
        began = clock()
        try:
            answer: Answer = yield Send("GET", url, {}, timeout=STALLED, is_stream=True)
            # What is longer than its manifest says is read no further: it might have no end.
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
    """Whether a PUT is refused because the bytes are there already, by the node or by an S3 service (If-None-Match)."""
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
