"""Proofs: what a peer can find out about a stored post without trusting the node that shows it."""

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from node.sign.proof import (
    MAX_COVERED,
    MAX_SIGNED_BODY,
    Proof,
    ProofInvalid,
    SignatureWithheld,
    proof_of,
    rebuild_base,
    verify_proof,
)
from node.sign.request import Verified
from node.sign.signature_base import signature_base
from tests.sign.signing import BODY, COVERED, KEY, NOW, PUBLIC, Signed, sign

SHOWN = ("title", "body", "author")
TWICE = b'{"title":"t","title":"u","body":"b"}'


def proof(body: bytes = BODY, **changes: Any) -> Proof:
    outcome = sign(request=Signed(body=body)).judged()
    assert isinstance(outcome, Verified)
    return msgspec.structs.replace(proof_of(outcome, body, SHOWN), **changes)


def test_a_stored_proof_is_verified_by_whoever_reads_the_record():
    stored = msgspec.json.encode(proof())
    proven = verify_proof(msgspec.json.decode(stored, type=Proof))
    assert proven.key == PUBLIC
    assert proven.created == NOW - 5
    assert proven.target == "node.example/api/v1/board"
    assert proven.content == json.loads(BODY)
    whole = json.dumps(dict.fromkeys(SHOWN, "all that a record shows")).encode()
    assert verify_proof(proof(whole)).content == json.loads(whole)


def test_a_proof_by_the_target_uri_says_where_it_was_sent():
    outcome = sign((*COVERED, "@target-uri")).judged()
    assert isinstance(outcome, Verified)
    assert verify_proof(proof_of(outcome, BODY, SHOWN)).target == "https://node.example/api/v1/board"


@pytest.mark.parametrize(
    "body",
    [
        b'{"title":"t","body":"b","callback_url":"https://agent.example/secret"}',
        b'{"title":"t","body":"b","idempotency_key":"k"}',
        TWICE,
        b'{"title":"t","body":{"a":1,"a":2}}',
        b"[]",
        b"plain text",
        b'{"title":"\xff"}',
        b'{"title":' + b"[" * 100_000,
        b'{"title":"' + b"a" * MAX_SIGNED_BODY + b'"}',
    ],
    ids=["callback", "idempotency key", "twice", "twice within", "list", "text", "not UTF-8", "too deep", "too long"],
)
def test_a_body_that_cannot_be_published_is_not_kept_and_the_signature_still_verifies(body: bytes):
    stored = proof(body)
    assert stored.signed_body is None
    assert verify_proof(stored).content is None


@pytest.mark.parametrize("name", ["authorization", "cookie", "idempotency-key", "proxy-authorization", "x-api-key"])
def test_the_value_of_a_header_that_may_be_a_secret_is_not_published_and_nothing_to_try_values_with(name: str):
    outcome = sign((*COVERED, name), extra={name: "a-secret-of-the-signer"}).judged()
    assert isinstance(outcome, Verified)
    stored = proof_of(outcome, BODY, SHOWN)
    assert "a-secret-of-the-signer" not in msgspec.json.encode(stored).decode()
    assert stored.signature == ""
    assert [each for each, _ in stored.components] == list(COVERED)
    with pytest.raises(SignatureWithheld):
        verify_proof(stored)


@pytest.mark.parametrize("where", ["value", "parameter"])
def test_of_what_a_signature_covers_no_more_is_kept_than_a_post_is_charged_for(where: str):
    """Otherwise a covered header of 4 kB would be kept with each post, and seven more of them."""
    pad = "k" * MAX_COVERED
    if where == "value":
        signed = sign((*COVERED, "user-agent"), extra={"user-agent": pad})
    else:
        signed = sign(params=f';created={NOW - 5};keyid="{pad}"')
    outcome = signed.judged()
    assert isinstance(outcome, Verified)
    stored = proof_of(outcome, BODY, SHOWN)
    assert stored == Proof(PUBLIC.x, "", (), "")
    with pytest.raises(SignatureWithheld):
        verify_proof(stored)


def without_digest() -> Proof:
    outcome = sign(("@method", "@target-uri", "signature-key"), request=Signed(body=b"")).judged()
    assert isinstance(outcome, Verified)
    return msgspec.structs.replace(proof_of(outcome, b"", SHOWN), signed_body=BODY.decode())


def joined(components: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Join the first two lines of the base into one component: the same bytes with another meaning."""
    (first, value), (second, other), *rest = components
    return ((first, f'{value}\n"{second}": {other}'), *rest)


TAMPERED: dict[str, Callable[[], Proof]] = {
    "another body": lambda: proof(signed_body=BODY.decode().replace("CSV", "TSV")),
    "a body with a lone surrogate": lambda: proof(signed_body='{"title":"\ud800"}'),
    "a body the signature does not cover": without_digest,
    "a signed body with a field twice": lambda: proof(TWICE, signed_body=TWICE.decode()),
    "a signed body that is no object": lambda: proof(b"[]", signed_body="[]"),
    "another key": lambda: proof(key="11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"),
    "a key that is none": lambda: proof(key="AAAA"),
    "another signature": lambda: proof(signature="A" * 86 + "=="),
    "a signature that is none": lambda: proof(signature="?"),
    "a signature spelt otherwise": lambda: proof(signature=proof().signature + "\n"),
    "another component": lambda: proof(components=(("@method", "PUT"), *proof().components[1:])),
    "a component less": lambda: proof(components=proof().components[1:]),
    "a component renamed": lambda: proof(components=(("x-method", "POST"), *proof().components[1:])),
    "components joined": lambda: proof(components=joined(proof().components)),
    "a name with a quote": lambda: proof(components=(('@method": POST\n"@authority', "x"), *proof().components[2:])),
    "other parameters": lambda: proof(params=proof().params.replace("5600", "5601")),
    "parameters spelt otherwise": lambda: proof(params=proof().params.replace(";created", "; created")),
    "parameters with a second label": lambda: proof(params=proof().params + ", other=1"),
    "parameters that are none": lambda: proof(params="?"),
    "parameters of another type": lambda: proof(params='"text"'),
    "parameters that are not ASCII": lambda: proof(params='();tag="€"', components=()),
}


@pytest.mark.parametrize("tampered", TAMPERED.values(), ids=TAMPERED)
def test_a_tampered_proof_proves_nothing(tampered: Callable[[], Proof]):
    with pytest.raises(ProofInvalid):
        verify_proof(tampered())


@pytest.mark.parametrize(
    ("components", "params"),
    [
        ((("@method", "POST"), ("@path", "/")), '("@path" "@method");created=1'),
        ((("@method", "POST"),), '("@method" "@path");created=1'),
        ((("@method", "POST"),), '( "@method" );created=1'),
    ],
    ids=["in another order", "not all of them", "spelt otherwise"],
)
def test_a_signature_that_says_otherwise_what_it_covers_proves_nothing(
    components: tuple[tuple[str, str], ...], params: str
):
    signature = KEY.sign(signature_base(components, params)).signature
    with pytest.raises(ProofInvalid):
        verify_proof(Proof(PUBLIC.x, b64encode(signature).decode(), components, params))


def test_the_rebuilt_base_is_what_was_signed():
    assert rebuild_base(proof()).decode().splitlines() == [
        *(f'"{name}": {value}' for name, value in proof().components),
        f'"@signature-params": {proof().params}',
    ]
