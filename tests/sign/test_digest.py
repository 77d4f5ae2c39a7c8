"""Content-Digest of RFC 9530, and the digest of an artifact."""

import hashlib
from base64 import b64encode

import pytest

from node.sign.digest import DigestError, DigestMismatch, check, parse, read_sha256

CONTENT = b'{"hello": "world"}\n'
# RFC 9530 B.1 and appendix D: the digests of this content.
SHA_256 = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:"
SHA_512 = "sha-512=:YMAam51Jz/jOATT6/zvHrLVgOYTGFy1d6GJiOHTohq4yP+pgk4vf2aCsyRZOtw8MjkM7iw7yZ/WkppmM44T3qg==:"


def test_the_digests_of_rfc_9530_are_read_and_fit_their_content():
    check(SHA_256, CONTENT)
    check(SHA_512, CONTENT)
    check(f"{SHA_256}, {SHA_512}", CONTENT)
    assert parse(SHA_256) == {"sha-256": hashlib.sha256(CONTENT).digest()}


def test_unknown_algorithms_are_passed_over_if_a_known_one_is_there():
    check(f"md5=:AAAA:, {SHA_256}, crc32c=:AA==:", CONTENT)
    with pytest.raises(DigestError, match="no digest by sha-256 or sha-512"):
        parse("md5=:AAAA:")
    with pytest.raises(DigestError, match="no digest by sha-256 or sha-512"):
        parse("")


@pytest.mark.parametrize("field", [SHA_256, f"{SHA_256}, {SHA_512}"])
def test_every_known_digest_has_to_fit(field: str):
    with pytest.raises(DigestMismatch):
        check(field.replace("RK/", "RK0").replace("YMA", "YMB"), CONTENT)
    with pytest.raises(DigestMismatch):
        check(f"{SHA_256}, {SHA_512.replace('YMA', 'YMB')}", CONTENT)


@pytest.mark.parametrize(
    "field",
    [
        "sha-256",
        "sha-256=abc",
        'sha-256="RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg="',
        "sha-256=:AAAA:",
        "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=",
        "SHA-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:",
        "sha-256=(:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:)",
        f"{SHA_256}, {SHA_256}",
        f"{SHA_256},",
        f"{SHA_256};a;a",
        SHA_512.replace("sha-512", "sha-256"),
        f'{SHA_256}, x="{"y" * 4096}"',
        "sha-256=:\ud800:",
    ],
)
def test_a_field_that_is_no_digest_is_refused(field: str):
    with pytest.raises(DigestError):
        parse(field)


@pytest.mark.parametrize(
    ("field", "reason"), [(f"{SHA_256}, {SHA_256}", "member sha-256"), (f"{SHA_256};a;a", "parameter a")]
)
def test_what_is_there_twice_is_named(field: str, reason: str):
    with pytest.raises(DigestError, match=f"^Content-Digest has the {reason} twice$"):
        parse(field)


def test_the_digest_of_an_artifact_is_read_from_hex_and_base64():
    digest = hashlib.sha256(CONTENT).digest()
    padded = b64encode(digest).decode()
    for text in (digest.hex(), digest.hex().upper(), padded, padded.rstrip("=")):
        assert read_sha256(text) == digest


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ab",
        "g" * 64,
        "ab " * 21 + "a",
        b64encode(bytes(32)).decode().replace("=", "") + "==",
        "A" * 42 + "B=",
        b64encode(bytes(33)).decode(),
        "é" * 44,
        SHA_256,
        " " + b64encode(bytes(32)).decode(),
    ],
)
def test_the_digest_of_an_artifact_has_exactly_these_spellings(text: str):
    with pytest.raises(DigestError):
        read_sha256(text)
