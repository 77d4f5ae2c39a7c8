"""Shared by the blob tests: a grant for given bytes, the embedded store behind a real server, and a client that can
misbehave.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2
from granian.constants import Interfaces
from granian.server.embed import Server

from node.artifacts.blobs.disk import DiskStore
from node.artifacts.blobs.disk_app import DiskApp
from node.artifacts.blobs.interface import Grant
from node.web.errors import CATALOGUE
from node.web.http import ASGIMessage, Receive, Scope, Send
from tests.support.servers import PATIENCE, free_port, listening

ID = "0199aaaa-0000-7000-8000-00000000002a"
SECRET = "a secret for tests"
DATA = b"id,name\n1,Ada\n2,Grace\n"

BIG = bytes(range(256)) * 8192
"""2 MiB: several chunks."""


def grant_for(data: bytes = DATA, media_type: str = "text/csv", artifact_id: str = ID) -> Grant:
    return Grant(artifact_id, len(data), media_type, sha256(data).hexdigest())


@asynccontextmanager
async def serving(app: Any, port: int) -> AsyncGenerator[None]:
    """Serve `app` with Granian, as in production, until the block ends."""

    async def http_only(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await app(scope, receive, send)

    server = Server(http_only, port=port, interface=Interfaces.ASGI, log_enabled=False, websockets=False)
    task = asyncio.create_task(server.serve())
    try:
        await listening(port)
        yield
    finally:
        server.stop()
        await task


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


async def call(
    app: Any, method: str, path: str, headers: dict[str, str], messages: AsyncIterable[ASGIMessage]
) -> Answer | None:
    """Call an ASGI app with exactly these body messages. Returns None if it hung up without an answer."""
    source = aiter(messages)
    sent: list[ASGIMessage] = []

    async def receive() -> ASGIMessage:
        return await anext(source, {"type": "http.disconnect"})

    async def send(message: ASGIMessage) -> None:
        sent.append(message)

    pairs: Sequence[tuple[bytes, bytes]] = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await app({"type": "http", "method": method, "path": path, "headers": pairs}, receive, send)
    if not sent:
        return None
    answered = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], answered, b"".join(message.get("body", b"") for message in sent[1:]))


def client_of(scope: Scope) -> str:
    """Return the client that the request's `client` header names."""
    return dict(scope["headers"]).get(b"client", b"").decode()


class BlobServer:
    """A store, its app, and a client to the server in front of them."""

    def __init__(self, directory: Path, *, reserve: int = 0, stall: float = 5.0, send_stall: float = 5.0) -> None:
        self.port = free_port()
        self.store = DiskStore(directory, f"http://127.0.0.1:{self.port}", SECRET, reserve)
        self.app = DiskApp(self.store, client_of, stall, send_stall)
        self.client = httpx2.AsyncClient(timeout=PATIENCE)

    async def put(self, content: bytes = DATA, data: bytes = DATA, **headers: str) -> httpx2.Response:
        """PUT `content` to the URL granted for `data`."""
        url = await self.store.upload_url(grant_for(data), 900)
        sent = {"content-type": "text/csv"} | {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.put(url, content=content, headers=sent)

    async def get(self, data: bytes = DATA, filename: str | None = None, **headers: str) -> httpx2.Response:
        url = await self.store.content_url(grant_for(data), filename, 300)
        return await self.client.get(url, headers={name.replace("_", "-"): value for name, value in headers.items()})

    async def path(self, data: bytes = DATA) -> str:
        return urlsplit(await self.store.upload_url(grant_for(data), 900)).path

    def files(self) -> list[str]:
        return sorted(path.name for path in self.store.directory.rglob("*") if path.is_file())


@asynccontextmanager
async def served(server: BlobServer) -> AsyncGenerator[BlobServer]:
    async with serving(server.app, server.port), server.client:
        yield server


def assert_refused(answer: httpx2.Response | Answer | None, code: str, **facts: str) -> None:
    assert answer is not None
    body = answer.content if isinstance(answer, httpx2.Response) else answer.body
    status = answer.status_code if isinstance(answer, httpx2.Response) else answer.status
    assert (status, answer.headers["x-error-code"]) == (CATALOGUE[code].status, code)
    assert json.loads(body) == {"error": CATALOGUE[code].sentence.format(**facts)}
    assert answer.headers["link"] == '</llms-full.txt#errors>; rel="help"'


def holds_open(name: str) -> bool:
    """Return whether this process has a file with this name open."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since the directory was listed
            if descriptor.readlink().name == name:
                return True
    return False


def headers_for(data: bytes) -> dict[str, str]:
    """Return the headers of an upload of these bytes."""
    return {"content-type": "text/csv", "content-length": str(len(data))}


async def body(*chunks: bytes) -> AsyncIterator[ASGIMessage]:
    for chunk in chunks:
        yield {"type": "http.request", "body": chunk, "more_body": True}
    yield {"type": "http.request", "body": b"", "more_body": False}
