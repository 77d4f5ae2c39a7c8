"""Third-party signing libraries, used as their manuals say, against a real socket.

The JavaScript ones are in `js`; `make clients` installs them.
"""

# The Python library re-exports names implicitly, and leaves its messages untyped.
# pyright: reportPrivateImportUsage=false, reportUnknownMemberType=false

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from http_message_signatures import HTTPMessageSigner, HTTPMessageVerifier, HTTPSignatureKeyResolver
from http_message_signatures.algorithms import ED25519
from http_message_signatures.httpx2 import adapt_message

from node.common import base64url
from node.sign.request import Verified, verify
from node.sign.signature_base import PublicAddress, SignedMessage
from tests.conformance.javascript import node_binary
from tests.sign.signing import BODY, COVERED, HWK, PUBLIC, SEED, sign
from tests.support.servers import PATIENCE

JS = Path(__file__).parent / "js"


class Node:
    """A server that judges each request by its signature."""

    def __init__(self) -> None:
        self.outcomes: list[Verified | None] = []
        self.address = PublicAddress.parse("http://unbound.example")

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        request, *lines = head.rstrip(b"\r\n").split(b"\r\n")
        headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
        body = await reader.readexactly(int(dict(headers)[b"content-length"]))
        method, target, _ = request.decode().split(" ")
        path, _, query = target.partition("?")
        message = SignedMessage(method, self.address, path, query, headers)
        self.outcomes.append(verify(message, body, time.time()))
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    node = Node()
    server = await asyncio.start_server(node.answer, "127.0.0.1", 0)
    async with server:
        node.address = PublicAddress.parse(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        yield node


@pytest.fixture(scope="session")
def javascript() -> Path:
    """The directory of the installed JavaScript clients."""
    if not (JS / "node_modules").exists():
        pytest.fail("the JavaScript clients are not installed: run `make clients`")
    return JS


async def test_javascript_clients_are_verified_unchanged(node: Node, javascript: Path):
    url = f"http://{node.address.authority}/api/v1/board"
    script = await asyncio.create_subprocess_exec(
        *(node_binary(), "send.mjs", url, base64url.encode(SEED), PUBLIC.x, PUBLIC.did),
        cwd=javascript,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await script.communicate()
    assert script.returncode == 0, errors.decode()
    assert len(node.outcomes) == 2
    for outcome in node.outcomes:
        assert isinstance(outcome, Verified), outcome
        assert outcome.key == PUBLIC


class Keys(HTTPSignatureKeyResolver):
    """Looks up keys by id, as the library requires."""

    def resolve_private_key(self, key_id: str) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(SEED)

    def resolve_public_key(self, key_id: str) -> Ed25519PublicKey:
        return Ed25519PublicKey.from_public_bytes(PUBLIC.raw)


@pytest.mark.parametrize("keyid", [PUBLIC.thumbprint, PUBLIC.did])
async def test_http_message_signatures_for_python_is_verified_unchanged(node: Node, keyid: str):
    hwk = keyid == PUBLIC.thumbprint
    url = f"http://{node.address.authority}/api/v1/tasks?trace=1"
    headers = {"signature-key": f"pyhms={HWK}"} if hwk else {}
    request = httpx2.Request("POST", url, content=BODY, headers=headers)
    signer = HTTPMessageSigner(signature_algorithm=ED25519, key_resolver=Keys())
    covered = ("@method", "@authority", "@target-uri", *headers)
    signer.sign(adapt_message(request), key_id=keyid, covered_component_ids=covered, nonce="1", body=BODY)
    async with httpx2.AsyncClient(timeout=PATIENCE) as client:
        await client.send(request)
    (outcome,) = node.outcomes
    assert isinstance(outcome, Verified), outcome
    assert outcome.key == PUBLIC


def test_http_message_signatures_for_python_verifies_what_our_tests_sign():
    signed = sign(COVERED, f';created={int(time.time())};keyid="{PUBLIC.thumbprint}"')
    request = httpx2.Request("POST", "https://node.example/api/v1/board", content=BODY, headers=signed.headers)
    verifier = HTTPMessageVerifier(signature_algorithm=ED25519, key_resolver=Keys())
    (result,) = verifier.verify(adapt_message(request), body=BODY)
    assert list(result.covered_components) == [*(f'"{name}"' for name in COVERED), '"@signature-params"']
