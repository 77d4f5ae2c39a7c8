"""TLS with servers of strangers, whose choices in a handshake must cost this process only little.

A key exchange over a finite field is computed in the event loop, in a group that the server chooses: a group of 8,192
bits took 0.12 s in TLS 1.3, before any certificate was seen, and a group of the server's own 0.9 s in TLS 1.2. So only
elliptic curves are offered. For TLS 1.3, `ssl` cannot list the groups to offer, only name a single one. That one is
P-256, which every implementation has (RFC 8446 §9.1). A server that is configured only for other curves refuses the
handshake. The node then tries TLS 1.2, for which it offers only ciphers that use elliptic curves.
"""

import ssl
from collections.abc import Callable

import httpcore2


def client_contexts(
    make: Callable[[], ssl.SSLContext] = httpcore2.default_ssl_context,
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the context to use, and the one for servers that refuse it (`was_refused`).

    `make` returns a new context, which trusts the usual certificate authorities.
    """
    usual, other = make(), make()
    usual.set_ecdh_curve("prime256v1")
    other.maximum_version = ssl.TLSVersion.TLSv1_2
    for context in (usual, other):  # ciphers of TLS 1.3 stay, as they do not determine the key exchange
        context.set_ciphers(":".join(each["name"] for each in context.get_ciphers() if each["kea"] == "kx-ecdhe"))
    return usual, other


def was_refused(error: httpcore2.ConnectError) -> bool:
    """Whether the server ended the handshake because it accepts nothing that was offered."""
    cause = error.__cause__
    return isinstance(cause, ssl.SSLError) and cause.reason == "SSLV3_ALERT_HANDSHAKE_FAILURE"
