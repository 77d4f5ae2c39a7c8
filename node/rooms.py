"""The services of every room on one store, as the web processes and the worker share them."""

from collections.abc import Sequence

from node.a2a.service import Messages
from node.a2a.store import MessageStore
from node.board.service import Board
from node.board.store import BoardStore
from node.config import Settings
from node.feedback.service import Feedback
from node.feedback.store import FeedbackStore
from node.hooks.policy import TargetPolicy
from node.relay.service import Relay
from node.relay.store import RelayStore
from node.sessions.service import Sessions
from node.sessions.store import SessionStore
from node.store import Store
from node.tasks.service import Tasks
from node.tasks.store import TaskStore
from node.tokens import Tokens


class Rooms:
    """One service a room; none holds state of its own, so any process may have them."""

    def __init__(self, settings: Settings, store: Store) -> None:
        tokens = Tokens(settings.secret)
        targets = TargetPolicy(settings)
        remembered = settings.idempotency_ttl
        self.relay = Relay(RelayStore(store, remembered), settings, targets)
        self.board = Board(BoardStore(store, remembered), settings, targets)
        self.tasks = Tasks(TaskStore(store, remembered), settings, tokens, targets, unknown_artifacts)
        lines = SessionStore(store, remembered, settings.session_max_lines, settings.session_max_bytes)
        self.sessions = Sessions(lines, settings, tokens, targets)
        self.messages = Messages(MessageStore(store, remembered), settings)
        self.feedback = Feedback(FeedbackStore(store, remembered))


async def unknown_artifacts(ids: Sequence[str]) -> list[str]:
    """No artifact is known to this node."""
    return list(ids)
