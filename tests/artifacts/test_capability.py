import hmac
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.artifacts.blobs.capability import DownloadGrant, GrantSigner, UploadGrant
from node.common.refusal import Refused
from node.common.tokens import Tokens
from tests.artifacts.blobs import SECRET, grant_for


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_what_was_granted_is_what_is_read() -> None:
    signer = GrantSigner(SECRET, Clock())
    assert signer.read(signer.upload(grant_for(), 900)) == UploadGrant(grant_for(), 1_900)
    assert signer.read(signer.upload(grant_for(), 900, begins=950)) == UploadGrant(grant_for(), 1_850)
    assert signer.read(signer.download(grant_for(), "naïve.csv", 300)) == DownloadGrant(grant_for(), "naïve.csv", 1_300)


def test_a_capability_ends_at_its_second() -> None:
    clock = Clock()
    signer = GrantSigner(SECRET, clock)
    text = signer.upload(grant_for(), 900)
    clock.now += 899.9
    assert signer.read(text)
    clock.now += 0.1
    with pytest.raises(Refused, match=r"^blob\.expired$"):
        signer.read(text)


def test_a_capability_lasts_no_less_than_was_promised() -> None:
    clock = Clock()
    clock.now += 0.9
    signer = GrantSigner(SECRET, clock)
    texts = (
        signer.upload(grant_for(), 900),
        signer.upload(grant_for(), 900, begins=clock.now),
        signer.download(grant_for(), None, 900),
    )
    clock.now += 899.95
    for text in texts:
        assert signer.read(text)


def test_no_character_can_be_changed_added_or_left_out() -> None:
    signer = GrantSigner(SECRET)
    text = signer.upload(grant_for(), 900)
    changed = [text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :] for at in range(len(text))]
    more = [text + "A", text + "=", " " + text, text + "\n", text + "é"]
    for other in [*changed, *(text[:at] for at in range(len(text))), *more]:
        with pytest.raises(Refused, match=r"^blob\.forged$"):
            signer.read(other)


def test_another_node_cannot_sign_for_this_one() -> None:
    with pytest.raises(Refused, match=r"^blob\.forged$"):
        GrantSigner(SECRET).read(GrantSigner(SECRET + "!").upload(grant_for(), 900))


def test_the_secret_signs_capabilities_only_through_a_key_of_their_own() -> None:
    payload = GrantSigner(SECRET).upload(grant_for(), 900).partition(".")[0]
    for signature in (
        urlsafe_b64encode(hmac.digest(SECRET.encode(), payload.encode(), "sha256")).rstrip(b"=").decode(),
        Tokens(SECRET).issue(payload),
    ):
        with pytest.raises(Refused, match=r"^blob\.forged$"):
            GrantSigner(SECRET).read(f"{payload}.{signature}")


@given(st.text() | st.binary().map(lambda raw: urlsafe_b64encode(raw).decode() + "." + urlsafe_b64encode(raw).decode()))
def test_any_other_text_is_forged_and_nothing_else(text: str) -> None:
    with pytest.raises(Refused, match=r"^blob\.forged$"):
        GrantSigner(SECRET).read(text)


def test_an_empty_secret_signs_nothing() -> None:
    with pytest.raises(ValueError, match="secret"):
        GrantSigner("")
