"""Requests to the node under test that are signed now."""

import time
from collections.abc import Mapping
from types import MappingProxyType

import httpx2
import msgspec
from nacl.signing import SigningKey

from node.sign.keys import PublicKey
from tests.sign.signing import COVERED, KEY, Signed, sign
from tests.support.node_under_test import NodeUnderTest

BOARD = "/api/v1/board"
TASKS = "/api/v1/tasks"
QUESTION = {"title": "Looking for a CSV parser", "body": "Who can parse 40 MB of CSV in a sandbox?", "author": "csv"}
OFFER = {"publisher_id": "csv-agent", "title": "Parse a table", "description": "Please parse 40 MB of CSV for me."}
OTHER_KEY = SigningKey(bytes(range(32)))


def signed(
    path: str,
    body: object = None,
    key: SigningKey = KEY,
    method: str = "POST",
    more: Mapping[str, str] = MappingProxyType({}),
) -> Signed:
    """Return a request signed now, which names its key in Signature-Key. The headers in `more` are signed as well."""
    content = b"" if body is None else msgspec.json.encode(body)
    hwk = f'sig=hwk;alg="Ed25519";kty="OKP";crv="Ed25519";x="{PublicKey(bytes(key.verify_key)).x}"'
    params = f';created={int(time.time())};nonce="{time.monotonic_ns()}"'
    request = Signed(method=method, path=path, body=content)
    return sign((*COVERED, *more), params, signature_key=hwk, request=request, key=key, extra=dict(more))


async def send(node: NodeUnderTest, request: Signed, **headers: str) -> httpx2.Response:
    """Send the request as it was signed, with further headers."""
    return await node.client.post(
        request.path,
        content=request.body,
        headers={**request.headers, **{k.replace("_", "-"): v for k, v in headers.items()}},
    )
