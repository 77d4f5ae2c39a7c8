"""The text forms of an ed25519 public key."""

import pytest

from node.sign.keys import KeyInvalid, PublicKey
from tests.sign.signing import KEY, PUBLIC

# RFC 8037 A.3: the published key and its thumbprint.
RFC_8037_X = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"


def test_the_thumbprint_is_that_of_rfc_8037():
    assert PublicKey.from_x(RFC_8037_X).thumbprint == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def test_a_key_is_read_back_from_each_of_its_texts():
    assert PublicKey.from_x(PUBLIC.x) == PUBLIC
    assert PublicKey.from_did(PUBLIC.did) == PUBLIC
    assert PUBLIC.jwk == {"kty": "OKP", "crv": "Ed25519", "x": PUBLIC.x}
    assert PUBLIC.whpk == "whpk_JrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs="


def test_a_did_key_is_the_published_one():
    # https://w3c-ccg.github.io/did-key-spec/, "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"
    did = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"
    assert PublicKey.from_did(did).did == did


@pytest.mark.parametrize(
    "x", ["", "AAAA", PUBLIC.x + "=", PUBLIC.x[:-1] + "t", PUBLIC.x + "AAAA", "é" * 43, " " + PUBLIC.x]
)
def test_x_has_one_spelling(x: str):
    with pytest.raises(KeyInvalid):
        PublicKey.from_x(x)


@pytest.mark.parametrize(
    "did",
    [
        "did:key:z6Mk",
        PUBLIC.did[:-1],
        PUBLIC.did + "1",
        PublicKey(PUBLIC.raw[:-1]).did,
        PublicKey(PUBLIC.raw[1:]).did,
        PUBLIC.did.replace("z6Mk", "z16Mk"),
        PUBLIC.did.replace("z6Mk", "z6LS"),
        PUBLIC.did + "#" + PUBLIC.did.removeprefix("did:key:"),
        "did:key:z6Mk" + "1" * 100_000,
        "did:key:z6Mk0OIl",
        "did:key:z0",
    ],
)
def test_a_did_key_has_one_spelling(did: str):
    with pytest.raises(KeyInvalid):
        PublicKey.from_did(did)


def test_a_key_verifies_its_own_signatures_of_64_bytes_only():
    signature = KEY.sign(b"message").signature
    assert PUBLIC.verifies(b"message", signature)
    assert not PUBLIC.verifies(b"massage", signature)
    assert not PUBLIC.verifies(b"message", signature[:-1])
    assert not PUBLIC.verifies(b"message", signature + b"\0")
    assert not PUBLIC.verifies(b"message", KEY.sign(b"a message").signature + b"a ")


@pytest.mark.parametrize("raw", [bytes([1]) + bytes(31), bytes(32), b"\xff" * 32])
def test_points_that_are_no_keys_verify_nothing(raw: bytes):
    """OpenSSL accepts S=0 under the identity point for every message."""
    for r in (bytes([1]) + bytes(31), raw):
        assert not PublicKey(raw).verifies(b"any message", r + bytes(32))
