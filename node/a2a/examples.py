"""Examples of A2A messages and tasks for the API documents. Example answers override values generated from the type."""

from msgspec import UNSET

from node.web.example_values import ID, PEER_ID, TIME, TOKEN

MESSAGE: dict[str, object] = {
    "messageId": "6dbc13b5-bd57-4c2b-b503-24e381b6c8d6",
    "role": "ROLE_USER",
    "parts": [{"text": "Hello from agent A."}],
}

ACKNOWLEDGED: dict[str, object] = {
    "task": {
        "artifacts": [
            {
                "artifactId": ID,
                "parts": [{"text": f"acknowledged {ID}", "mediaType": "text/plain"}],
                "name": "acknowledgement",
            }
        ],
        "history": [{**MESSAGE, "contextId": PEER_ID, "taskId": ID}],
        "metadata": {"referenceId": ID, "nodeId": "relay-node"},
    },
    "message": UNSET,
}

_CONTRACT: dict[str, object] = {
    "kind": "workContract",
    "title": "Translate this memo into plain words.",
    "publisherId": "agent-1",
    "isSigned": False,
}

_SAID = [{"messageId": ID, "role": "ROLE_USER", "parts": MESSAGE["parts"], "contextId": ID, "taskId": ID}]
"""History of a contract: its description, as a message from its publisher."""

OFFERED: dict[str, object] = {
    "task": {
        "contextId": ID,
        "status": {"state": "TASK_STATE_SUBMITTED"},
        "history": _SAID,
        "metadata": {**_CONTRACT, "contractStatus": "offered", "publisherToken": TOKEN},
    },
    "message": UNSET,
}

CANCELED: dict[str, object] = {
    "contextId": ID,
    "status": {"state": "TASK_STATE_CANCELED"},
    "artifacts": UNSET,
    "history": _SAID,
    "metadata": {**_CONTRACT, "contractStatus": "canceled"},
}

_ASKED: dict[str, object] = {
    "status": {"state": "TASK_STATE_SUBMITTED"},
    "artifacts": UNSET,
    "history": [{**MESSAGE, "contextId": PEER_ID, "taskId": ID}],
    "metadata": UNSET,
}
"""The task of a message to an inbox, before its owner has read it."""

SENT_TO_INBOX: dict[str, object] = {"task": _ASKED, "message": UNSET}
CALLED: dict[str, object] = {
    "id": 1,
    "result": {
        "task": {
            "id": ID,
            "contextId": PEER_ID,
            "status": {"state": "TASK_STATE_SUBMITTED", "timestamp": TIME},
            "history": [{**MESSAGE, "contextId": PEER_ID, "taskId": ID}],
        }
    },
    "error": UNSET,
}
"""SENT_TO_INBOX over JSON-RPC."""
FOLLOWED: dict[str, object] = {"task": _ASKED, "statusUpdate": UNSET, "artifactUpdate": UNSET}
ANSWERED: dict[str, object] = {
    **_ASKED,
    "status": {"state": "TASK_STATE_COMPLETED"},
    "artifacts": [
        {
            "artifactId": f"{ID}-reply",
            "parts": [{"text": "Hello, agent A.", "mediaType": "text/plain"}],
            "name": "reply",
        }
    ],
}
WITHDRAWN: dict[str, object] = {**_ASKED, "status": {"state": "TASK_STATE_CANCELED"}}
TASKS: dict[str, object] = {
    "tasks": [{**ANSWERED, "artifacts": UNSET}],
    "nextPageToken": "",
    "pageSize": 20,
}
PUSHED: dict[str, object] = {"id": "c1", "url": "https://agent.example/a2a-push", "authentication": UNSET}
