"""TLS with strangers, whose choices in a handshake may cost this process only little.

A key exchange over a finite field is computed in the event loop, in a group that the other side chooses: one of 8,192
bits took 0.12 s in TLS 1.3, before any certificate was seen, and numbers of its own 0.9 s in TLS 1.2. So only elliptic
curves are offered. `ssl` cannot name the groups of TLS 1.3, except that there is a single one. That is P-256, which
every implementation has (RFC 8446 §9.1). A server that is configured for other curves alone refuses the handshake, and
is then asked for TLS 1.2, in which the ciphers leave no choice but curves.
"""

import ssl
from collections.abc import Callable

import httpcore2


def client_contexts(
    make: Callable[[], ssl.SSLContext] = httpcore2.default_ssl_context,
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The context to use, and the one for a server by which that `was_refused`. `make`: makes one that trusts."""
    usual, other = make(), make()
    usual.set_ecdh_curve("prime256v1")
    other.maximum_version = ssl.TLSVersion.TLSv1_2
    for context in (usual, other):  # the ciphers of TLS 1.3, which say nothing of the key exchange, all stay
        context.set_ciphers(":".join(each["name"] for each in context.get_ciphers() if each["kea"] == "kx-ecdhe"))
    return usual, other


def was_refused(error: httpcore2.ConnectError) -> bool:
    """Whether the server ended a handshake because it accepts nothing of what was offered."""
    cause = error.__cause__
    return isinstance(cause, ssl.SSLError) and cause.reason == "SSLV3_ALERT_HANDSHAKE_FAILURE"
