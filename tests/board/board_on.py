"""The board's service on a store, composed as the node composes it."""

from node.board.moderation import Moderation
from node.board.moderation_store import ModerationStore
from node.board.provenance import Provenance
from node.board.service import Board
from node.board.store import BoardStore
from node.callbacks.target_check import TargetCheck
from node.common.own_terms import TextIndex
from node.config import Settings
from node.store import Store
from node.store.limits import LimitStore
from tests.support.no_index import NoIndex


def board_on(
    store: Store, settings: Settings, threads: BoardStore | None = None, index: TextIndex | None = None
) -> Board:
    """Return the board's service. `threads` replaces its usual store of threads."""
    threads = threads or BoardStore(store, settings.idempotency_ttl)
    moderation = Moderation(threads, ModerationStore(store), Provenance(store, settings.provenance_days))
    return Board(threads, moderation, settings, TargetCheck(settings, LimitStore(store).is_known), index or NoIndex())
