"""A receiver of callbacks that believes only what the node has signed. Needs PyNaCl.

    python receiver.py whpk_... 9000 hooks.example.org

The key is in the node's /.well-known/relay-node.json; the host is the one in your callback_url.
"""

import json
import sys
import time
from base64 import b64decode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

KEY = VerifyKey(b64decode(sys.argv[1].removeprefix("whpk_")))
PORT, HOST = int(sys.argv[2]), sys.argv[3]
TOLERANCE = 300  # seconds that clocks may differ; older messages may be replays
seen: set[str] = set()  # callbacks come at least once: keep these where a restart does not lose them


def verified(message_id: str, timestamp: str, signatures: str, body: bytes) -> bool:
    """Whether the node signed this message for this host, just now."""
    if not timestamp.isascii() or not timestamp.isdigit() or abs(time.time() - int(timestamp)) > TOLERANCE:
        return False
    signed = f"{message_id}.{timestamp}.".encode() + body
    for version, _, signature in (each.partition(",") for each in signatures.split(" ")):
        try:
            if version == "v1a" and KEY.verify(signed, b64decode(signature)):
                # One key signs for all receivers: a message for another host may be passed on to this one.
                return json.loads(body)["data"]["callback_host"] == HOST
        except (BadSignatureError, ValueError):
            continue
    return False


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(min(int(self.headers.get("content-length", 0)), 20_000))
        names = ("webhook-id", "webhook-timestamp", "webhook-signature")
        message_id, timestamp, signatures = (self.headers.get(name, "") for name in names)
        good = verified(message_id, timestamp, signatures, body)
        if good and message_id not in seen:
            seen.add(message_id)
            event = json.loads(body)
            print(event["type"], event["data"]["url"], flush=True)  # what happened is read there
        self.send_response(204 if good else 401)
        self.end_headers()


ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
