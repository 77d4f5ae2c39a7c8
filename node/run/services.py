"""The services of every room on one store, as web processes, the worker and the operator's commands have them."""

from collections.abc import Callable
from typing import NamedTuple

from node.a2a.service import Messages
from node.a2a.store import MessageStore
from node.artifacts.service import Artifacts
from node.artifacts.store import ArtifactStore
from node.artifacts.verify import Verifier
from node.board.service import Board
from node.board.store import BoardStore
from node.board.thread_reader import ThreadReader
from node.callbacks.policy import TargetPolicy
from node.callbacks.queue import CallbackQueue
from node.common.tokens import Tokens
from node.config import Settings
from node.feedback.service import Feedback
from node.feedback.store import FeedbackStore
from node.relay.service import Relay
from node.relay.store import RelayStore
from node.run.blobs import blobs_of
from node.search.service import Search
from node.search.store import SearchStore
from node.sessions.service import Sessions
from node.sessions.store import SessionStore
from node.store import Store, connect
from node.tasks.compaction import unpack
from node.tasks.service import Tasks
from node.tasks.store import TaskStore


class Stores(NamedTuple):
    """The Redis of the node, and the one that holds the search index: the same one unless RELAY_SEARCH_URL is set."""

    main: Store
    documents: Store

    @classmethod
    async def open(cls, settings: Settings) -> "Stores":
        """Connect to both; neither is waited for."""
        main = await _connect(settings.redis_url, settings)
        return cls(main, await _connect(settings.search_url, settings) if settings.search_url else main)

    def wrapped_by(self, wrap: Callable[[Store], Store]) -> "Stores":
        """The same stores as `wrap` gives them."""
        main = wrap(self.main)
        return Stores(main, main if self.documents is self.main else wrap(self.documents))

    async def close(self) -> None:
        """Drop all connections."""
        for store in {self.main, self.documents}:
            await store.close()


class Services:
    """One service a room; what they keep is in Redis, so any process may have them.

    Raises ConfigError if the blob store of the settings cannot be one.
    """

    def __init__(self, settings: Settings, stores: Stores) -> None:
        store = stores.main
        tokens = Tokens(settings.secret)
        targets = TargetPolicy(settings)
        idempotency_ttl = settings.idempotency_ttl
        self.callbacks = CallbackQueue(store, unpack)
        self.relay = Relay(RelayStore(store, idempotency_ttl), settings, targets)
        self.search = Search(SearchStore(store, stores.documents), ThreadReader(store), settings)
        self.board = Board(BoardStore(store, idempotency_ttl), settings, targets, self.search.note)
        self.blobs = blobs_of(settings)
        manifests = ArtifactStore(store, idempotency_ttl, settings.artifact_ttl)
        self.artifacts = Artifacts(manifests, self.blobs, settings)
        self.verifier = Verifier(manifests, self.blobs)
        self.tasks = Tasks(TaskStore(store, idempotency_ttl), settings, tokens, targets, self.artifacts.statuses)
        lines = SessionStore(store, idempotency_ttl, settings.session_max_lines, settings.session_max_bytes)
        self.sessions = Sessions(lines, settings, tokens, targets)
        self.messages = Messages(MessageStore(store, idempotency_ttl, settings.message_retention_days), settings)
        self.feedback = Feedback(FeedbackStore(store, idempotency_ttl))

    async def close(self) -> None:
        """Close the blob store; whoever opened the stores closes them."""
        await self.blobs.close()


async def _connect(url: str, settings: Settings) -> Store:
    return await connect(url, timeout=settings.store_timeout, max_in_flight=settings.max_in_flight)
