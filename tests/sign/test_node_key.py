"""The node's own key, and what it signs."""

import json
from base64 import b64decode, b64encode
from pathlib import Path

import pytest

from node.sign.keys import PublicKey
from node.sign.node_key import NodeKey
from tests.sign.signing import PUBLIC, SEED

SECRET = "whsk_" + b64encode(SEED).decode()


def test_a_webhook_is_signed_as_standard_webhooks_says():
    vector = json.loads((Path(__file__).parent / "vectors/webhook-v1a.json").read_text())
    message_id, timestamp, _ = vector["m"].split(".", 2)
    signature = NodeKey.parse(SECRET).sign_webhook(message_id, int(timestamp), vector["body"].encode())
    assert signature == f"v1a,{vector['s']}"
    assert PublicKey.from_x(vector["x"]).verifies(vector["m"].encode(), b64decode(vector["s"]))


def test_the_key_of_the_settings_is_read_and_written():
    key = NodeKey.parse(SECRET)
    assert key.public == PUBLIC
    assert key.secret == SECRET


def test_a_generated_key_survives_being_kept():
    key = NodeKey.generate()
    assert NodeKey.parse(key.secret).public == key.public
    assert key.public.verifies(b"message", key.sign(b"message"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "whsk_",
        "whsk_!",
        SECRET[5:],
        SECRET[:-4],
        f"{SECRET[:9]} {SECRET[9:]}",
        "whsk_" + b64encode(bytes(64)).decode(),
    ],
)
def test_anything_else_is_refused_and_not_repeated(text: str):
    with pytest.raises(ValueError, match="the signing key is not") as refusal:
        NodeKey.parse(text)
    assert not text[5:] or text[5:] not in str(refusal.value)


def test_the_secret_is_not_in_the_repr():
    assert repr(NodeKey.parse(SECRET)) == f"NodeKey({PUBLIC.whpk})"
