"""The same Granian serving a fixed answer over bare ASGI: what a request costs before any of it is ours."""

from bench.client import Call
from bench.lab import Peer
from bench.payload import Template, relay_body
from bench.peers.python import granian

_relay = Template("POST", "/api/v1/relay")

PEER = Peer(
    name="bare granian",
    about="reads the body, answers a fixed acknowledgement; no store",
    start=lambda home: granian("bare granian", "fixed_answer", home),
    calls=lambda number: Call(_relay(relay_body(number))),
)
