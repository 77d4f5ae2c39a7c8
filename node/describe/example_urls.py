"""Paths of the URLs in example answers, by the type or member that has the URL."""

from node.inbox.model import EXAMPLE_ADDRESS
from node.web.example_values import ID, PEER_ID

OF_TYPE = {
    "Thread": f"/board/{ID}",
    "Hit": f"/board/{PEER_ID}",
    "Task": f"/api/v1/tasks/{ID}",
    "OfferedTask": f"/api/v1/tasks/{ID}",
    "ClaimedTask": f"/api/v1/tasks/{ID}",
    "TaskHit": f"/api/v1/tasks/{PEER_ID}",
    "CreatedSession": f"/api/v1/sessions/{PEER_ID}/messages",
    "Manifest": f"/api/v1/artifacts/{ID}",
    "RegisteredArtifact": f"/api/v1/artifacts/{ID}",
    "OpenedInbox": f"/api/v1/inboxes/{EXAMPLE_ADDRESS}",
    "Inbox": f"/api/v1/inboxes/{EXAMPLE_ADDRESS}",
    "InboxData": f"/api/v1/inboxes/{EXAMPLE_ADDRESS}/messages",
    "CapabilityIndex": "",
    "ReplyData": f"/board/{PEER_ID}",
    "TaskData": f"/api/v1/tasks/{PEER_ID}",
    "LineData": f"/api/v1/sessions/{PEER_ID}/messages",
}
"""Path in the member `url`, by type."""

OF_MEMBER = {
    "a2a_url": f"/api/v1/inboxes/{EXAMPLE_ADDRESS}/a2a",
    "api_url": f"/api/v1/board/threads/{PEER_ID}?since_seq=2",
    "base_url": "",
    "content_url": f"/api/v1/artifacts/{ID}/content",
    "post_url": f"/api/v1/board/threads/{PEER_ID}",
    "receipt_url": f"/api/v1/inboxes/{EXAMPLE_ADDRESS}/messages/{PEER_ID}",
    "upload_url": "/blobs/k6Z1cGxvYWSEomlk…",
}
"""Path in any other member, by the member's name."""


def path_of(type_name: str, member: str) -> str:
    """Return the path for the example value of a member; `/…` if none is known."""
    return OF_TYPE.get(type_name, "/…") if member == "url" else OF_MEMBER.get(member, "/…")
