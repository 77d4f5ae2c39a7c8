"""Signatures and digests at the exact bounds of their length."""

import pytest

from node.sign.digest import DigestError, check
from node.sign.fields import MAX_FIELD
from node.sign.proof import MAX_SIGNED_BODY, proof_of
from node.sign.request import InvalidSignature, Verified
from tests.sign.signing import NOW, Signed, sign
from tests.sign.test_digest import CONTENT, SHA_256


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_signed_body_is_kept_up_to_its_bound(beyond: int):
    frame = b'{"title":"%b"}'
    body = frame % (b"a" * (MAX_SIGNED_BODY + beyond - len(frame % b"")))
    outcome = sign(request=Signed(body=body)).judged()
    assert isinstance(outcome, Verified)
    assert proof_of(outcome, body, ("title",)).signed_body == (None if beyond else body.decode())


@pytest.mark.parametrize("created", [NOW - 400, NOW + 400])
def test_whoever_signs_by_a_wrong_clock_is_told_to_set_it(created: int):
    """Signing again with the same clock would be refused again, for ever."""
    with pytest.raises(InvalidSignature, match="correct your clock"):
        sign(params=f";created={created}").judged()


def test_a_digest_field_is_read_up_to_its_bound():
    other = "md5=:AAAA:"
    field = f"{SHA_256},{other:>{MAX_FIELD - len(SHA_256) - 1}}"
    assert len(field) == MAX_FIELD
    check(field, CONTENT)
    with pytest.raises(DigestError, match="longer than"):
        check(field.replace(",", ", "), CONTENT)
