"""Addresses that can be written in two ways."""

from ipaddress import ip_address

import pytest

from node.common.addresses import unmapped


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::ffff:c000:201", "192.0.2.1"),
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("::192.0.2.1", "::c000:201"),
        ("::ffff:0:192.0.2.1", "::ffff:0:c000:201"),
        ("64:ff9b::192.0.2.1", "64:ff9b::c000:201"),
    ],
)
def test_only_a_mapped_address_stands_for_one_of_ipv4(written: str, meant: str) -> None:
    assert str(unmapped(ip_address(written))) == meant
