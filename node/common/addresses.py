"""One form for IP addresses that can be written in two ways."""

from ipaddress import IPv6Address

from node.config.values import Address


def unmapped(address: Address) -> Address:
    """Convert an IPv4-mapped IPv6 address such as `::ffff:192.0.2.1` to IPv4 (RFC 4291 §2.5.5.2). Return any other
    address unchanged.

    A dual-stack socket reports its IPv4 peers in the mapped form, and Python before 3.13 does not treat
    `::ffff:127.0.0.1` as a loopback address.
    """
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
