"""The rules of artifacts: who may register what, what a status allows, and when bytes are deleted (SPEC 4.6)."""

import asyncio
import re
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from time import monotonic

import msgspec

from node.artifacts.blobs.interface import RETRY_AFTER_SECONDS, BlobMissing, BlobStore, BlobUnavailable, Grant
from node.artifacts.model import (
    INLINE_BYTES,
    ArtifactQuery,
    ArtifactStatus,
    InlineArtifact,
    InlineContent,
    Manifest,
    NewArtifact,
    RegisteredArtifact,
)
from node.artifacts.outage import OUTAGE
from node.artifacts.record import StoredArtifact
from node.artifacts.store import ALWAYS_RESERVED, VERIFICATION_MS, ArtifactQuotas, ArtifactStore
from node.common.refusal import Invalid, Refused
from node.common.timestamps import timestamp
from node.config import Settings
from node.share.origin import Attributed, ClientOrigin
from node.sign.digest import DigestError, parse, read_sha256
from node.store import ids
from node.store.errors import after_write
from node.store.idempotency import IdempotencyKey
from node.store.limits import RateLimit
from node.text.lines import require_name, require_text
from node.text.readable import is_one_line

UPLOAD_SECONDS = 900
"""Lifetime of an upload URL (SPEC 8)."""

CONTENT_SECONDS = 300
"""Lifetime of a content URL (SPEC 8)."""

SWEEP_LIMIT = 100
"""Maximum number of artifacts that one sweep ends in a partition. The next sweep takes the rest."""

CLEAR_SECONDS = 600.0
"""Seconds between searches for leftovers of interrupted uploads. Each search reads the whole directory of the embedded
store."""

BUSY_TRIES, BUSY_SECONDS = 20, 0.05
"""Tries to store small bytes while another request with the same key stores them, and seconds between two tries."""

WITHDRAWN = "The operator of the node has removed the artifact."

_NAME = r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}"
_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"  # noqa: S105 - the token of RFC 9110 §5.6.2
_MEDIA_TYPE = re.compile(rf'{_NAME}/{_NAME}( *; *{_TOKEN}=({_TOKEN}|"[ !#-\[\]-~]*"))*')
"""Names by RFC 6838 §4.2, parameters by RFC 9110 §5.6.6."""


class Download(msgspec.Struct, frozen=True):
    """The URL of the bytes of an available artifact, and their description."""

    url: str
    grant: Grant
    filename: str | None


class Artifacts:
    """The service behind /api/v1/artifacts."""

    def __init__(self, store: ArtifactStore, blobs: BlobStore, settings: Settings) -> None:
        self._store = store
        self._blobs = blobs
        self._settings = settings
        self._base = f"{settings.public_url}/api/v1/artifacts/"
        self._clears_at = 0.0
        """Monotonic time, in seconds, of the next search for leftovers of interrupted uploads."""

    def check(self, new: NewArtifact, promised: str | None) -> NewArtifact:
        """Return the registration with its digest in hexadecimal. Raises Invalid.

        `promised`: the Content-Digest header, which must have the same digest.
        """
        digest = _digest(new.digest_sha256, promised)
        self._require_manifest(new)
        return msgspec.structs.replace(new, digest_sha256=digest.hex())

    async def register(
        self, rate: RateLimit, new: NewArtifact, idempotency: IdempotencyKey | None
    ) -> tuple[RegisteredArtifact, bool]:
        """Keep a checked registration. Returns the artifact, and whether an earlier request registered it.

        The lifetime of the upload URL begins with the first registration. Raises Refused `idempotency.short`, and what
        `_keep` raises.
        """
        stored, replayed = await self._keep(rate, new, idempotency)
        if replayed and idempotency:
            idempotency.check_token(stored.created_at, stored.read_at)
        began = stored.created_at / 1000
        ends_at = stored.created_at + UPLOAD_SECONDS * 1000
        usable = stored.status == "registered" and stored.read_at < ends_at
        registered = RegisteredArtifact(
            **msgspec.structs.asdict(self._manifest(stored)),
            upload_url=await self._blobs.upload_url(stored.grant, UPLOAD_SECONDS, began) if usable else None,
            upload_headers=dict(self._blobs.upload_headers(stored.grant)),
            upload_expires_at=timestamp(ends_at),
        )
        return registered, replayed

    async def get(self, artifact_id: str, query: ArtifactQuery | None = None) -> Manifest:
        """Return a manifest; if the query says so, wait for another status first.

        Raises Refused `artifact.unknown`, StoreUnavailable.
        """
        query = query or ArtifactQuery()
        ids.require_id(artifact_id, "artifact.unknown")
        return self._manifest(_known(await self._store.wait(artifact_id, query.wait, query.status)))

    async def complete(self, artifact_id: str) -> Manifest:
        """Have an artifact's bytes verified. Raises Refused `artifact.unknown`, `artifact.state`, StoreUnavailable."""
        ids.require_id(artifact_id, "artifact.unknown")
        stored = _known(await self._store.complete(artifact_id))
        if stored.status in {"rejected", "expired"}:
            raise Refused("artifact.state", status=stored.status)
        return self._manifest(stored)

    async def content(self, artifact_id: str) -> Download:
        """Return where the bytes are. Raises Refused `artifact.unknown`, `artifact.state`, StoreUnavailable."""
        ids.require_id(artifact_id, "artifact.unknown")
        stored = _known(await self._store.read(artifact_id))
        if stored.status != "available":
            raise Refused("artifact.state", status=stored.status)
        left = CONTENT_SECONDS if stored.ends_at is None else max(1, (stored.ends_at - stored.read_at) // 1000)
        url = await self._blobs.content_url(stored.grant, stored.filename, min(CONTENT_SECONDS, left))
        return Download(url, stored.grant, stored.filename)

    def inline(self, new: InlineArtifact) -> tuple[NewArtifact, bytes]:
        """Return the checked registration of small bytes, and the bytes. Raises Invalid."""
        if (new.text is None) == (new.base64 is None):
            raise Invalid.field("body", msg="give exactly one of text and base64")
        try:
            content = new.text.encode() if new.text is not None else b64decode(new.base64 or "", validate=True)
        except ValueError:
            raise Invalid.field("body", "base64", msg="is not base64") from None
        if not 0 < len(content) <= INLINE_BYTES:
            name = "base64" if new.text is None else "text"
            raise Invalid.field("body", name, msg=f"must have 1 to {INLINE_BYTES} bytes; register a larger artifact")
        digest = sha256(content).hexdigest()
        registration = NewArtifact(new.publisher_id, new.media_type, len(content), digest, new.filename)
        self._require_manifest(registration)
        return registration, content

    async def store_inline(
        self, rate: RateLimit, new: NewArtifact, content: bytes, idempotency: IdempotencyKey | None
    ) -> tuple[Manifest, bool]:
        """Register, store and complete an artifact. Returns its manifest, and whether an earlier request registered it.

        A repeated request gets the same answer again, whatever the verdict on the bytes was. Raises Refused
        `artifact.state`, and what `_keep` and `_write` raise.
        """
        stored, replayed = await self._keep(rate, new, idempotency)
        if stored.status == "registered":
            await self._write(stored.grant, content)
        with after_write("the artifact is registered"):
            stored = _known(await self._store.complete(stored.id))
        if stored.completed_at is None:
            raise Refused("artifact.state", status=stored.status)
        return self._manifest(stored.when_completed(VERIFICATION_MS)), replayed

    async def _keep(
        self, rate: RateLimit, new: NewArtifact, idempotency: IdempotencyKey | None
    ) -> tuple[StoredArtifact, bool]:
        """Keep the manifest of a checked registration. Returns the record, and whether an earlier request kept it.

        Raises Refused `limit.exceeded`, `store.full`, `artifact.reserved`, `artifact.quota`, `artifact.unknown`,
        `blob.unavailable`, `idempotency.conflict`, StoreUnavailable.
        """
        with _within_reach():
            free = await self._blobs.free_bytes()
        fields = {
            "publisher_id": new.publisher_id,
            "media_type": new.media_type,
            "digest_sha256": new.digest_sha256,
        }
        if new.filename:
            fields["filename"] = new.filename
        return await self._store.register(rate, idempotency, new.byte_size, self._quotas(free), fields)

    async def _write(self, grant: Grant, content: bytes) -> None:
        """Store small bytes, unless another request with the same Idempotency-Key stores or has stored them.

        Raises Refused `blob.unavailable`, and others of `BlobStore.write`.
        """
        left = BUSY_TRIES
        while True:
            try:
                with _within_reach():
                    return await self._blobs.write(grant, content)
            except Refused as refused:
                left -= 1
                if refused.code == "blob.uploaded":
                    return None
                if refused.code != "blob.busy" or not left:
                    raise
            await asyncio.sleep(BUSY_SECONDS)

    async def read_inline(self, artifact_id: str) -> InlineContent:
        """Return the bytes of a small artifact. Raises Refused `artifact.unknown`, `artifact.state`, `artifact.large`,
        `blob.missing`, `blob.unavailable`, StoreUnavailable.
        """
        grant = (await self.content(artifact_id)).grant
        if grant.byte_size > INLINE_BYTES:
            raise Refused("artifact.large", most=INLINE_BYTES)
        try:
            with _within_reach():
                content = b"".join([chunk async for chunk in self._blobs.read(grant)])
        except BlobMissing:
            raise Refused("blob.missing") from None
        text = _text(content)
        return InlineContent(
            id=artifact_id,
            media_type=grant.media_type,
            byte_size=grant.byte_size,
            digest_sha256=grant.digest_sha256,
            text=text,
            base64=b64encode(content).decode() if text is None else None,
        )

    async def statuses(self, artifact_ids: Sequence[str]) -> dict[str, ArtifactStatus]:
        """Return the status of each artifact among these ids. Raises StoreUnavailable."""
        found = await self._store.read_many([each for each in dict.fromkeys(artifact_ids) if ids.is_id(each)])
        return {stored.id: stored.status for stored in found if stored}

    async def sweep(self) -> int:
        """End the artifacts whose time is over. Returns how many were ended. The worker does this all the time.

        Readers see an artifact as expired from the moment at which its time is over (`record.StoredArtifact.status`);
        the sweep frees its space. Bytes are deleted before they are given back to the quotas, so that the space given
        back is really free. If the blob store is out of reach, a later sweep deletes the bytes. Raises
        StoreUnavailable.
        """
        ended = 0
        for artifact_id in await self._store.due(SWEEP_LIMIT):
            with _outage_reported():
                await self._blobs.delete(artifact_id)
                ended += await self._store.end(artifact_id)
        if monotonic() >= self._clears_at:
            with _outage_reported():
                await self._blobs.sweep()
                self._clears_at = monotonic() + CLEAR_SECONDS
        return ended

    async def sent_by(self, origin: ClientOrigin) -> list[Attributed]:
        """Return this origin's artifacts that have or may get bytes, for the operator. Raises StoreUnavailable."""
        return [
            Attributed("artifact", stored.id, stored.created_at, stored.client, None)
            async for stored in self._store.kept()
            if stored.status not in ("rejected", "expired") and origin.covers(stored.client, None)
        ]

    async def list(self) -> AsyncIterator[Manifest]:
        """Yield all artifacts whose bytes are counted, for the operator. Raises StoreUnavailable."""
        async for stored in self._store.kept():
            yield self._manifest(stored)

    async def purge(self, artifact_id: str) -> Manifest:
        """Remove the bytes of an artifact, for the operator. Returns its manifest, which says so.

        An upload URL cannot be revoked, so the bytes stay counted until no URL can bring them back. Raises Refused
        `artifact.unknown`, StoreUnavailable. Raises Refused `blob.unavailable` if the bytes are still in the blob
        store: nobody can read them any more, and a later sweep deletes them.
        """
        ids.require_id(artifact_id, "artifact.unknown")
        if await self._store.withdraw(artifact_id, WITHDRAWN):
            with _within_reach():
                await self._blobs.delete(artifact_id)
        return await self.get(artifact_id)

    def _quotas(self, free: int | None) -> ArtifactQuotas:
        """Return what clients may hold while the blob store has `free` bytes left."""
        settings = self._settings
        return ArtifactQuotas(
            client=settings.artifact_client_bytes,
            number=settings.client_artifacts,
            reserved_percent=settings.artifact_reserved_percent,
            reserved_always=max(settings.artifact_max_bytes, ALWAYS_RESERVED),
            total=settings.artifact_total_bytes,
            free=free,
        )

    def _require_manifest(self, new: NewArtifact) -> None:
        """Raise Invalid if the manifest of a registration cannot be kept, for a reason other than its digest."""
        require_text("publisher_id", new.publisher_id)
        require_name("publisher_id", new.publisher_id)
        if not _MEDIA_TYPE.fullmatch(new.media_type):
            raise Invalid.field("body", "media_type", msg="must be a media type, such as text/csv")
        most = self._settings.artifact_max_bytes
        if new.byte_size > most:
            raise Invalid.field(
                "body", "byte_size", msg=f"must be at most {most}, the largest size that this node stores"
            )
        if new.filename is not None and not _is_filename(new.filename):
            raise Invalid.field("body", "filename", msg="must be one line without slashes")

    def _manifest(self, stored: StoredArtifact) -> Manifest:
        return stored.manifest(self._base + stored.id)


def _digest(digest_sha256: str, content_digest: str | None) -> bytes:
    """Return the digest, on which body and header must agree. Raises Invalid."""
    if content_digest is None:
        raise Invalid.field("header", "Content-Digest", msg="Field required", kind="missing")
    try:
        promised = parse(content_digest).get("sha-256")
    except DigestError as error:
        raise Invalid.field("header", "Content-Digest", msg=str(error)) from None
    try:
        digest = read_sha256(digest_sha256)
    except DigestError as error:
        raise Invalid.field("body", "digest_sha256", msg=str(error)) from None
    if promised is None:
        raise Invalid.field("header", "Content-Digest", msg="must contain a sha-256 digest, such as sha-256=:<base64>:")
    if promised != digest:
        raise Invalid.field("body", "digest_sha256", msg="differs from the sha-256 digest in Content-Digest")
    return digest


def _text(content: bytes) -> str | None:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _is_filename(name: str) -> bool:
    return bool(name.strip(" .")) and is_one_line(name) and "/" not in name and "\\" not in name


@contextmanager
def _outage_reported() -> Generator[None]:
    """If the blob store is out of reach in the block, log that and go on after the block."""
    try:
        yield
    except BlobUnavailable as unavailable:
        OUTAGE.report(unavailable)


@contextmanager
def _within_reach() -> Generator[None]:
    """If the blob store is out of reach in the block, log that and raise Refused `blob.unavailable`."""
    try:
        yield
    except BlobUnavailable as unavailable:
        OUTAGE.report(unavailable)
        raise Refused("blob.unavailable", retry_after=RETRY_AFTER_SECONDS) from unavailable


def _known(stored: StoredArtifact | None) -> StoredArtifact:
    if stored is None:
        raise Refused("artifact.unknown")
    return stored
