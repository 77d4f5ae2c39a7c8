"""A node below a path of its host, behind a proxy that strips that path."""

from pathlib import Path

import pytest
from tests.support.client_node import SETTINGS
from tests.support.nodes import NodeProcess
from tests.support.stripping_proxy import StrippingProxy

from relay_client import Relay
from relay_client.signing import KeyFile


@pytest.mark.parametrize("root", ["/api", "/relay"])
def test_what_is_signed_for_the_public_address_is_accepted(root: str, tmp_path: Path) -> None:
    """This also holds if the node's own paths begin with the same word."""
    with StrippingProxy(root) as proxy, NodeProcess(tmp_path) as node:
        node.start(**SETTINGS, RELAY_BASE_URL=proxy.url).ready()
        proxy.leading_to(node.port)
        key = KeyFile(tmp_path / "agent.key")
        with Relay(proxy.url, signer=key) as relay:
            assert relay.inboxes.open()["address"] == key.address
            assert relay.inboxes.read(key.address)["messages"] == []
