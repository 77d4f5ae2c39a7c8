"""The node's Granian serving a fixed answer: what a request costs before the node's own code does anything.

It is measured over bare ASGI, which the node uses too, and over RSGI, Granian's own interface. The difference is the
overhead of ASGI, which no application on it can avoid.
"""

from bench.client import Call
from bench.lab import Peer
from bench.payload import Template, relay_body
from bench.peers.python import granian

_relay = Template("POST", "/api/v1/relay")

PEER = Peer(
    name="bare granian",
    about="reads the body, answers a fixed acknowledgement; no store",
    start=lambda home: granian("bare granian", "fixed_answer:app", home),
    calls=lambda number: Call(_relay(relay_body(number))),
)

RSGI = Peer(
    name="bare granian, RSGI",
    about="the same over Granian's own interface instead of ASGI",
    start=lambda home: granian("bare granian, RSGI", "fixed_answer:rsgi", home, "rsgi"),
    calls=lambda number: Call(_relay(relay_body(number))),
)
