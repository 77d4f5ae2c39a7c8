"""The server of the official Python A2A SDK: message:send over HTTP+JSON, tasks in memory."""

from bench.client import Call, request
from bench.lab import Peer
from bench.payload import Template, message_body
from bench.peers.python import uvicorn

_send = Template("POST", "/message:send", A2A_Version="1.0")

PEER = Peer(
    name="a2a-sdk",
    about="acknowledges a text message as a completed task with one artifact; tasks in memory, no limits, no gate",
    start=lambda home: uvicorn(
        "a2a-sdk", "a2a_acknowledger", home, ready=request("GET", "/.well-known/agent-card.json")
    ),
    calls=lambda number: Call(_send(message_body(number))),
)
