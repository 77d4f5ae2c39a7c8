"""Published and recorded signatures: the same bytes must come out here as everywhere else."""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from node.sign.request import Verified, verify
from node.sign.signature_base import PublicAddress, SignedMessage, signature_base
from tests.sign.signing import ADDRESS, KEY, NOW, PUBLIC, Signed

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vectors/rfc9421.json").read_text())

B_2_6 = Signed(
    method="POST",
    path="/foo",
    query="param=Value&Pet=dog",
    body=b'{"hello": "world"}',
    headers={
        "host": "example.com",
        "date": "Tue, 20 Apr 2021 02:07:55 GMT",
        "content-type": "application/json",
        "content-digest": (
            "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:"
        ),
        "content-length": "18",
        "signature-input": (
            'sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length")'
            ';created=1618884473;keyid="test-key-ed25519"'
        ),
        "signature": (
            "sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:"
        ),
    },
)


@pytest.mark.parametrize("vector", VECTORS, ids=[each["name"].split()[0] for each in VECTORS])
def test_a_recorded_request_verifies_and_signing_its_base_again_gives_the_same_signature(vector: dict[str, Any]):
    headers = [(name.encode(), value.encode()) for name, value in vector["headers"].items()]
    message = SignedMessage(vector["method"], ADDRESS, vector["path"], "", headers)
    outcome = verify(message, vector["body"].encode(), NOW)
    assert isinstance(outcome, Verified)
    assert outcome.key == PUBLIC
    base = signature_base(outcome.components, outcome.params)
    assert base.decode() == vector["base"]
    assert KEY.sign(base).signature == outcome.signature


def test_rfc_9421_b_2_6_gives_the_published_signature():
    address = PublicAddress.parse("https://example.com")
    message = SignedMessage(B_2_6.method, address, B_2_6.path, B_2_6.query, B_2_6.lines())
    names = ["date", "@method", "@path", "@authority", "content-type", "content-length"]
    base = signature_base(
        [(name, message.component(name)) for name in names],
        B_2_6.headers["signature-input"].removeprefix("sig-b26="),
    )
    published = b64decode(B_2_6.headers["signature"].removeprefix("sig-b26=:").removesuffix(":"))
    assert KEY.sign(base).signature == published
    assert PUBLIC.verifies(base, published)


def test_rfc_9421_b_2_6_names_a_key_that_nobody_sent_so_it_counts_as_unsigned():
    assert B_2_6.judged(now=1618884475, address=PublicAddress.parse("https://example.com")) is None
