"""The Via header, read element by element (RFC 9110 §7.6.3)."""

import pytest

from node.relay.via import has_passed


@pytest.mark.parametrize(
    "via",
    [
        "1.1 relay-node",
        "HTTP/1.1 Relay-Node",
        "1.1 relay-node:8000",
        "1.0 fred, 1.1 p.example.net, 1.1 relay-node",
        "1.0 fred,1.1\trelay-node (a comment, with (one) in it)",
        r"1.1 fred (a \) and a \( b), 1.1 relay-node",
        ", ,1.1 relay-node,",
        "1.1 fred), 1.1 relay-node",
    ],
)
def test_a_request_that_this_node_has_received_before_is_known(via: str) -> None:
    assert has_passed(via, "relay-node")


@pytest.mark.parametrize(
    "via",
    [
        "1.1 edge.my-relay-node-proxy.example",
        "1.1 relay-node-2",
        "1.1 relay-node.example",
        "relay-node/1.1 fred",
        "1.1 fred (relay-node)",
        "1.1 fred (for us, 1.1 relay-node)",
        r"1.1 fred (\), 1.1 relay-node)",
        r"1.1 fred (\), 1.1 relay-node , for us)",
        "1.1 fred (for us, 1.1 relay-node (or so))",
        "1.1 fred (for us, 1.1 relay-node , or so)",
        "1.1 fred (never closed, 1.1 relay-node",
        "relay-node",
        "1.1",
        "",
    ],
)
def test_a_request_that_has_passed_others_only_is_none_of_ours(via: str) -> None:
    assert not has_passed(via, "relay-node")


def test_an_id_that_ends_like_a_port_is_compared_whole_too() -> None:
    assert has_passed("1.1 relay:7", "relay:7")
    assert has_passed("1.1 Relay:7:8000", "RELAY:7")
