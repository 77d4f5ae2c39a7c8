"""Messages that the node cannot read."""

import base64
from pathlib import Path

import pytest
from tests.support.nodes import NodeProcess

from relay_client import Relay, UsageError
from relay_client.sealing import SealFile, Unreadable, seal


def test_a_sealed_message_is_read_by_its_receiver_alone(served: NodeProcess, tmp_path: Path) -> None:
    key = SealFile(tmp_path / "seal.key")
    assert SealFile(tmp_path / "seal.key").public == key.public
    with Relay(served.url) as relay:
        mine = relay.inboxes.open(encryption_key=key.public)
        address, token = mine["address"], mine["inbox_token"]
        shown = relay.inboxes.get(address)["encryption_key"]
        relay.inboxes.send(address, ciphertext=seal("The vault opens at nine.", shown, address))
        (message,) = relay.inboxes.read(address, token)["messages"]
    ciphertext = message["ciphertext"] or ""
    raw = base64.b64decode(ciphertext)
    assert b"vault" not in raw
    assert key.open(ciphertext, address) == "The vault opens at nine."
    for other, where, text in (
        (SealFile(tmp_path / "other.key"), address, ciphertext),
        (key, "another-address", ciphertext),
        (key, address, base64.b64encode(raw[:-1] + bytes([raw[-1] ^ 1])).decode()),
        (key, address, "AAAA"),
    ):
        with pytest.raises(Unreadable):
            other.open(text, where)


@pytest.mark.parametrize("shown", [None, "A" * 43, "A" * 42, "!"], ids=["none", "low order", "short", "no base64"])
def test_nothing_is_sealed_for_an_inbox_without_a_key_that_can_be_used(shown: str | None) -> None:
    """A stranger chooses the key of an inbox. Regression: some unusable keys raised no RelayError."""
    with pytest.raises(UsageError, match="encryption_key"):
        seal("The vault opens at nine.", shown, "address")
