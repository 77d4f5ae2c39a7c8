"""/api/v1/artifacts (SPEC 4.6). Except for small artifacts in JSON, bytes go directly to and from the blob store."""

from node.artifacts.blobs.headers import content_headers, digest_base64, etag
from node.artifacts.model import (
    EXAMPLE_DIGEST,
    ArtifactQuery,
    InlineArtifact,
    InlineContent,
    Manifest,
    NewArtifact,
    RegisteredArtifact,
)
from node.artifacts.service import Artifacts
from node.store import ids
from node.web.document import client_has
from node.web.http import NO_STORE, Request, Response, created, json_response
from node.web.idempotency import idempotency_key
from node.web.json import read_json, read_query
from node.web.limits import Limiter
from node.web.route import Operation, RequiredHeader, Route, routes_of

KEEPING = ("idempotency.conflict", "store.full", "artifact.reserved", "artifact.quota", "blob.unavailable")

COMPLETION_COST = 256 * 1024
"""Cost of a completion, in bytes of an answer. If nothing was uploaded, a completion can be repeated without end, and
each one has a worker look for the bytes: 3 ms of worker and Redis time, and a request to a bucket. By default one
client has 16 a second in the long run."""


class ArtifactsApi:
    """Large payloads over HTTP."""

    def __init__(self, artifacts: Artifacts, limiter: Limiter) -> None:
        self._artifacts = artifacts
        self._limiter = limiter

    @Operation(
        "Register an artifact; then PUT its bytes to upload_url, with upload_headers, within 15 minutes",
        body=NewArtifact,
        required_headers=(
            RequiredHeader(
                "Content-Digest",
                "The digest that digest_sha256 gives, in the form of RFC 9530: sha-256=:<base64>:",
                f"sha-256=:{digest_base64(EXAMPLE_DIGEST)}:",
            ),
        ),
        answers=RegisteredArtifact,
        shows={"completed_at": None, "available_at": None},
        status=201,
        errors=(*KEEPING, "idempotency.short"),
        limit="artifact",
    )
    async def register(self, request: Request) -> Response:
        async with self._limiter.permit(request, "artifact") as permit:
            content_digest = ", ".join(request.headers(b"content-digest")) or None
            new = self._artifacts.check(await read_json(request, NewArtifact), content_digest)
            body = await request.body()
            idempotency = idempotency_key(request, "artifact", body, home=ids.home_of(request.client))
            await permit.charge("artifact", len(body), idempotency)
            artifact, replayed = await self._artifacts.register(permit, new, idempotency)
            if replayed:
                await permit.replay()
        return created(artifact, artifact.url)

    @Operation(
        "Store a small artifact whose bytes are in the request",
        body=InlineArtifact,
        answers=Manifest,
        shows={"status": "verifying", "available_at": None},
        status=201,
        errors=(*KEEPING, "artifact.state", "blob.busy", "blob.full"),
        limit="artifact",
    )
    async def store_inline(self, request: Request) -> Response:
        async with self._limiter.permit(request, "artifact") as permit:
            new, content = self._artifacts.inline(await read_json(request, InlineArtifact))
            body = await request.body()
            idempotency = idempotency_key(request, "artifact-inline", body, home=ids.home_of(request.client))
            await permit.charge("artifact", 0, idempotency)
            artifact, replayed = await self._artifacts.store_inline(permit, new, content, idempotency)
            if replayed:
                await permit.replay()
        return created(artifact, artifact.url)

    @Operation(
        "Read the bytes of a small artifact in JSON",
        answers=InlineContent,
        errors=("artifact.unknown", "artifact.state", "artifact.large", "blob.unavailable"),
    )
    async def read_inline(self, request: Request) -> Response:
        """Return bytes of up to 256 KiB, as text if they are text."""
        return json_response(await self._artifacts.read_inline(request.params["id"]), headers=NO_STORE)

    @Operation(
        "Complete an artifact once its bytes are uploaded: they are verified soon after",
        answers=Manifest,
        shows={"status": "verifying", "available_at": None},
        status=202,
        errors=("artifact.unknown", "artifact.state"),
    )
    async def complete(self, request: Request) -> Response:
        request.cost += COMPLETION_COST
        return json_response(await self._artifacts.complete(request.params["id"]), status=202)

    @Operation(
        "Read the manifest of an artifact; with wait, wait for its next status",
        query=ArtifactQuery,
        answers=Manifest,
        shows={"status": "available"},
        errors=("artifact.unknown",),
    )
    async def get_manifest(self, request: Request) -> Response:
        """Return the manifest, without the upload URL."""
        query = read_query(request, ArtifactQuery)
        manifest = await request.while_waiting(query.wait, self._artifacts.get(request.params["id"], query))
        return json_response(manifest, headers=NO_STORE)

    @Operation(
        "Get redirected to the bytes, at a URL that is valid for 5 minutes; verify their digest",
        status=307,
        media_type="",
        errors=("artifact.unknown", "artifact.state"),
    )
    async def get_content(self, request: Request) -> Response:
        """Redirect to the bytes. HEAD is answered here, because a URL that a blob store signs for GET refuses HEAD."""
        download = await self._artifacts.content(request.params["id"])
        if not request.is_head:
            return Response(307, b"", ((b"location", download.url.encode("ascii")), *NO_STORE))
        grant = download.grant
        headers = (*content_headers(grant, download.filename), (b"content-length", b"%d" % grant.byte_size), *NO_STORE)
        return Response(304 if client_has(request.scope["headers"], etag(grant)) else 200, b"", headers)

    def routes(self) -> tuple[Route, ...]:
        """Return the routes (SPEC 4.6)."""
        return routes_of(
            "artifacts",
            ("POST", "/api/v1/artifacts", self.register),
            ("POST", "/api/v1/artifacts/inline", self.store_inline),
            ("POST", "/api/v1/artifacts/{id}/complete", self.complete),
            ("GET", "/api/v1/artifacts/{id}/inline", self.read_inline),
            ("GET", "/api/v1/artifacts/{id}", self.get_manifest),
            ("GET", "/api/v1/artifacts/{id}/content", self.get_content),
        )
