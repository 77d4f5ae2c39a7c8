"""The services of every feature on one store, as web processes, the worker and the operator's commands use them."""

from collections.abc import Callable
from typing import NamedTuple

from node.a2a.inboxes.service import InboxAgents
from node.a2a.service import Messages
from node.a2a.store import MessageStore
from node.agents.lists import AgentLists
from node.agents.service import Agents
from node.agents.store import AgentStore
from node.artifacts.service import Artifacts
from node.artifacts.store import ArtifactStore
from node.artifacts.verify import Verifier
from node.board.moderation import Moderation
from node.board.moderation_store import ModerationStore
from node.board.provenance import Provenance
from node.board.service import Board
from node.board.store import BoardStore
from node.callbacks.delivery import DeliveryRecords
from node.callbacks.queue import CallbackQueue
from node.callbacks.target_check import TargetCheck
from node.common.tokens import Tokens
from node.config import Settings
from node.events.broadcast import Broadcasts
from node.events.feed import FeedStore
from node.events.service import Events
from node.feedback.service import Feedback
from node.feedback.store import FeedbackStore
from node.inbox.message_store import InboxMessageStore
from node.inbox.origins import InboxOrigins
from node.inbox.receipt_store import ReceiptStore
from node.inbox.service import Inboxes, InboxPushes, InboxTasks
from node.inbox.store import InboxStore
from node.relay.service import Relay
from node.relay.store import RelayStore
from node.run.blobs import blobs_of
from node.run.corpora import corpora_of
from node.search.service import Search, SearchTurns
from node.search.store import SearchStore
from node.sessions.service import Sessions
from node.sessions.store import SessionStore
from node.store import Store, connect
from node.store.limits import LimitStore
from node.tasks.compaction import unpack
from node.tasks.offers.claim_next import ClaimsOfAny
from node.tasks.offers.feed import OfferFeed
from node.tasks.offers.matching import OfferMatching
from node.tasks.offers.search import OfferSearch
from node.tasks.service import Tasks
from node.tasks.store import TaskStore


class Stores(NamedTuple):
    """The node's Redis, and the one with the search index; they are the same unless RELAY_SEARCH_URL is set."""

    main: Store
    searched: Store

    @classmethod
    async def open(cls, settings: Settings) -> "Stores":
        """Connect to both. A Redis that cannot be reached now is connected to as soon as it can be."""
        main = await _connect(settings.redis_url, settings)
        return cls(main, await _connect(settings.search_url, settings) if settings.search_url else main)

    def wrapped_by(self, wrap: Callable[[Store], Store]) -> "Stores":
        """Return each of them as `wrap` returns it."""
        main = wrap(self.main)
        return Stores(main, main if self.searched is self.main else wrap(self.searched))

    async def close(self) -> None:
        """Close all connections."""
        for store in {self.main, self.searched}:
            await store.close()


class Services:
    """The services of each feature. Their state is in Redis, so any process may have them.

    Raises ConfigError if the settings name no usable blob store.
    """

    def __init__(self, settings: Settings, stores: Stores) -> None:
        store = stores.main
        tokens = Tokens(settings.secret)
        limits = LimitStore(store)
        self.targets = targets = TargetCheck(settings, limits.is_known)
        idempotency_ttl = settings.idempotency_ttl
        self.callbacks = CallbackQueue(store, unpack)
        self.deliveries = DeliveryRecords(store)
        self.relay = Relay(RelayStore(store, idempotency_ttl), settings, targets)
        self.searched = stores.searched
        """The Redis with the search index."""
        turns = SearchTurns()
        self.searches = {
            corpus.name: Search(SearchStore(store, stores.searched, corpus), turns) for corpus in corpora_of(store)
        }
        """The searches, by the name of their corpus."""
        self.search = self.searches["board"]
        self.provenance = Provenance(store, settings.provenance_days)
        boards = BoardStore(store, idempotency_ttl)
        moderation = Moderation(boards, ModerationStore(store), self.provenance)
        self.board = Board(boards, moderation, settings, targets, self.search)
        self.blobs = blobs_of(settings)
        manifests = ArtifactStore(store, idempotency_ttl, settings.artifact_ttl)
        self.artifacts = Artifacts(manifests, self.blobs, settings)
        self.verifier = Verifier(manifests, self.blobs)
        offers = OfferFeed(store)
        contracts = TaskStore(store, idempotency_ttl)
        self.tasks = Tasks(
            contracts, settings, tokens, targets, self.artifacts.statuses, offers, self.searches["tasks"]
        )
        self.offers = OfferSearch(self.tasks, self.searches["tasks"], offers)
        self._matching = OfferMatching(offers)
        self.claims = ClaimsOfAny(store, self.tasks, self._matching, self.offers, idempotency_ttl)
        lines = SessionStore(store, idempotency_ttl, settings.session_max_lines, settings.session_max_bytes)
        self.sessions = Sessions(lines, settings, tokens, targets)
        inboxes = InboxStore(store, limits, idempotency_ttl)
        receipts = ReceiptStore(store)
        held = InboxMessageStore(store, inboxes, receipts, idempotency_ttl)
        tasks = InboxTasks(store, receipts, held, tokens)
        self.inboxes = Inboxes(inboxes, held, receipts, settings, tokens, targets)
        self.inbox_origins = InboxOrigins(store)
        self.inbox_agents = InboxAgents(tasks, settings)
        self.pushes = InboxPushes(store, tasks)
        self.agent_store, self.agent_lists = AgentStore(store, idempotency_ttl), AgentLists(store)
        self.agents = Agents(self.agent_store, self.agent_lists, self.inboxes, self.searches["agents"], targets)
        self.messages = Messages(MessageStore(store, idempotency_ttl, settings.message_retention_days), settings)
        broadcasts = Broadcasts(store.wakeups, settings.max_waiting)
        self.events = Events(
            self.board, self.tasks, self.agents, self.sessions, self.inboxes, FeedStore(store), broadcasts
        )
        self.feedback = Feedback(FeedbackStore(store, idempotency_ttl))

    async def close(self) -> None:
        """End the work for waiting requests, and close the blob store. Whoever opened the stores closes them."""
        await self._matching.close()
        await self.blobs.close()


async def _connect(url: str, settings: Settings) -> Store:
    return await connect(url, timeout=settings.store_timeout, max_in_flight=settings.max_in_flight)
