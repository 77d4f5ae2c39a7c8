"""Example values of inboxes in the published documents. They override those made from the types."""

from node.inbox.model import EXAMPLE_ADDRESS
from node.web.example_values import LATER

SENT: dict[str, object] = {"status": "queued"}
RECEIPT: dict[str, object] = {
    "status": "done",
    "settled_at": LATER,
    "reply": "Solar panels became cheaper by half.",
    "read_at": LATER,
}
WITHDRAWN: dict[str, object] = {"status": "withdrawn"}
SETTLED: dict[str, object] = {"through_seq": 7, "settled": 3}
INBOX: dict[str, object] = {"policy": "open", "last_seen": "hour"}
PAGE: dict[str, object] = {
    "messages": [
        {
            "body": "Please summarise the report in the artifact.",
            "ciphertext": None,
            "subject": "A report to summarise",
            "author": "planner",
            "signer": None,
            "reply_to": EXAMPLE_ADDRESS,
            "reply_to_proven": False,
            "in_reply_to": None,
            "thread": None,
            "artifact_ids": [],
        }
    ],
    "bytes": 108,
}
