"""Whatever the headers are, there is an outcome and no stray exception."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from node.sign.digest import DigestError, check, parse, read_sha256
from node.sign.keys import KeyInvalid, PublicKey
from node.sign.proof import Proof, ProofInvalid, verify_proof
from node.sign.request import InvalidSignature
from tests.sign.signing import BODY, PUBLIC, Signed, sign

NAMES = ("signature-input", "signature", "signature-key", "content-digest", "host", "content-type")
SIGNED = sign()
# Fragments of the grammar, so that random text gets past the first character.
SCRAPS = (
    *("sig", "=", "(", ")", ";", ",", '"', ":", "@", "?1", "%", "*", " ", "\t", "-", "1", "1.5", "hwk", "x", "tag"),
    *('"@method"', '"@path"', '"content-digest"', ";created=1767225600", ';alg="ed25519"', ":AA==:", "@1767225600"),
    *(f'keyid="{PUBLIC.did}"', "sha-256", "sha-512", '%"f"', "\x00", "\xff", "\r\n", "A" * 50),
)
TEXT = st.lists(
    st.one_of(st.sampled_from(SCRAPS), st.text(st.characters(max_codepoint=255), max_size=4)), max_size=30
).map("".join)


@st.composite
def damaged(draw: st.DrawFn, texts: tuple[str, ...]) -> str:
    """Return a valid text with a part of it replaced."""
    text = draw(st.sampled_from(texts))
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 12)))
    return text[:start] + draw(TEXT) + text[end:]


@given(headers=st.dictionaries(st.sampled_from(NAMES), TEXT), body=st.binary(max_size=20))
def test_random_headers_never_verify_and_never_break_the_verifier(headers: dict[str, str], body: bytes):
    try:
        assert Signed(headers={"signature-input": "sig=()", **headers}, body=body).judged() is None
    except InvalidSignature as invalid:
        assert invalid.header.startswith("error=")


@given(name=st.sampled_from(NAMES), data=st.data())
def test_a_damaged_header_never_makes_another_signer(name: str, data: st.DataObject):
    value = data.draw(damaged((SIGNED.headers[name],)))
    with suppress(InvalidSignature):
        verified = SIGNED.with_header(name, value).judged()
        assert verified is None or verified.key == PUBLIC


@given(method=st.text(max_size=8), path=st.text(max_size=30), query=st.text(max_size=30))
@example(method="POST", path="", query="")
def test_only_the_request_that_was_signed_verifies(method: str, path: str, query: str):
    altered = replace(
        sign(("@method", "@target-uri", "content-digest", "signature-key")), method=method, path=path, query=query
    )
    with pytest.raises(InvalidSignature):
        altered.judged()


@given(st.one_of(TEXT, damaged((SIGNED.headers["content-digest"],))), st.binary(max_size=20))
def test_a_digest_is_right_or_a_digest_error(field: str, content: bytes):
    try:
        assert parse(field)
        check(field, content)
    except DigestError:
        return


@given(st.one_of(st.text(), damaged((PUBLIC.x, PUBLIC.did, "ab" * 32))))
def test_a_text_that_is_read_as_key_or_digest_is_that_key_or_digest(text: str):
    with suppress(KeyInvalid):
        assert PublicKey.from_x(text).x == text
    with suppress(KeyInvalid):
        assert PublicKey.from_did(text).did == text
    with suppress(DigestError):
        assert len(read_sha256(text)) == 32


@given(
    components=st.lists(st.tuples(st.one_of(st.sampled_from(NAMES), st.text()), st.text())),
    params=st.one_of(TEXT, st.text()),
    key=st.one_of(st.just(PUBLIC.x), st.text()),
    signature=st.one_of(st.just("A" * 86 + "=="), st.text()),
)
def test_a_random_proof_proves_nothing(components: list[tuple[str, str]], params: str, key: str, signature: str):
    try:
        verify_proof(Proof(key, signature, tuple(components), params, BODY.decode()))
    except ProofInvalid:
        return
    raise AssertionError("a random proof was believed")
