"""IP addresses that can be written in two ways."""

from ipaddress import IPv6Address

from node.config.values import Address


def unmapped(address: Address) -> Address:
    """The IPv4 address that an IPv6 address such as `::ffff:192.0.2.1` stands for (RFC 4291 §2.5.5.2); others as they
    are.

    A socket that takes IPv4 and IPv6 names its IPv4 peers so, and Python before 3.13 says that `::ffff:127.0.0.1` is
    no loopback address.
    """
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
