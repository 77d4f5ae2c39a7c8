"""What is known to have come from an address, a network or a key, as operators name it."""

import pytest

from node.share.origin import ClientOrigin, contains
from node.share.site import network_of

KEY = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"


@pytest.mark.parametrize(
    ("named", "covered", "others"),
    [
        ("203.0.113.7", ["203.0.113.7"], ["203.0.113.8", "2001:db8::/64", "on a unix socket"]),
        ("203.0.113.0/24", ["203.0.113.7", "203.0.113.8"], ["203.0.114.7", "2001:db8::/64"]),
        ("2001:db8::1", ["2001:db8::/64"], ["2001:db8:0:1::/64", "203.0.113.7"]),
        ("2001:db8::/48", ["2001:db8::/64", "2001:db8:0:1::/64"], ["2001:db8:1::/64"]),
    ],
)
def test_an_address_or_network_covers_its_clients_whoever_signs(
    named: str, covered: list[str], others: list[str]
) -> None:
    origin = ClientOrigin(network_of(named))
    assert [client for client in (*covered, *others) if origin.covers(client, KEY)] == covered


def test_a_key_covers_what_it_has_signed_wherever_that_came_from() -> None:
    origin = ClientOrigin(KEY)
    assert origin.covers("203.0.113.7", KEY)
    assert not origin.covers("203.0.113.7", None)
    assert (origin.client, origin.key) == ("", KEY)
    network = network_of("203.0.113.7")
    assert not any(contains(wider, named) for wider, named in ((KEY, KEY), (KEY, network), (network, KEY)))


@pytest.mark.parametrize(
    ("named", "client"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("203.0.113.0/24", ""),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::/48", ""),
    ],
)
def test_one_address_is_one_client(named: str, client: str) -> None:
    origin = ClientOrigin(network_of(named))
    assert (origin.client, origin.key) == (client, "")
