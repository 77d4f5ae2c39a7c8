"""Which IP addresses are public: the IANA special-purpose registries, written out.

`ipaddress.is_global` is not used: it passes multicast, IPv4 inside IPv6 and the retired site-local range, and its
answers have changed between Python releases. An address that is not known to be global unicast is not public. Names and
URLs are judged in `target.py`.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Network

from node.config.values import Address

SPECIAL_V4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network, RFC 791
        "10.0.0.0/8",  # private, RFC 1918
        "100.64.0.0/10",  # shared by carriers, RFC 6598; Alibaba's metadata service
        "34.118.224.0/20",  # services of a cluster on GKE, by default, on public addresses
        "127.0.0.0/8",  # loopback, RFC 1122
        "168.63.129.16/32",  # Azure's host agent, on a public address
        "169.254.0.0/16",  # link local, RFC 3927; the metadata services of most clouds
        "172.16.0.0/12",  # private, RFC 1918
        "192.0.0.0/24",  # protocol assignments, RFC 6890; Oracle's metadata service
        "192.0.2.0/24",  # documentation, RFC 5737
        "192.31.196.0/24",  # AS112, RFC 7535
        "192.52.193.0/24",  # AMT, RFC 7450
        "192.88.99.0/24",  # 6to4 relays, RFC 7526
        "192.168.0.0/16",  # private, RFC 1918
        "192.175.48.0/24",  # AS112, RFC 7534
        "198.18.0.0/15",  # benchmarking, RFC 2544
        "198.51.100.0/24",  # documentation, RFC 5737
        "203.0.113.0/24",  # documentation, RFC 5737
        "224.0.0.0/4",  # multicast, RFC 5771
        "240.0.0.0/4",  # reserved, RFC 1112, and broadcast
    )
)

GLOBAL_UNICAST_V6 = IPv6Network("2000::/3")  # all global unicast that IANA has assigned; nothing else is routed

SPECIAL_V6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments, RFC 2928: Teredo, ORCHID, benchmarking
        "2001:db8::/32",  # documentation, RFC 3849
        "2002::/16",  # 6to4, RFC 3056: contains any IPv4 address
        "2620:4f:8000::/48",  # AS112, RFC 7534
        "3fff::/20",  # documentation, RFC 9637
    )
)

_ISATAP = 0x00005EFE  # RFC 5214 §6.1: interface identifiers that contain an IPv4 address
_ISATAP_MASK = 0xFCFFFFFF  # leaves out the two flag bits, which may have any value


def is_public(address: Address) -> bool:
    """Whether an address is global unicast and not reserved. IPv6 addresses that contain an IPv4 address are not."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in SPECIAL_V4)
    if address.scope_id is not None or address not in GLOBAL_UNICAST_V6:
        return False
    if (int(address) >> 32) & _ISATAP_MASK == _ISATAP:
        return False
    return not any(address in network for network in SPECIAL_V6)
