"""The corpora of a node. To be searched, a feature needs an entry here, a `CorpusSource` and a search operation."""

from node.agents.agent_reader import AgentReader
from node.board.thread_reader import ThreadReader
from node.search.corpus import EVERY, Corpus
from node.store import Store
from node.tasks.offers.reader import INDEXED_AFTER, OfferReader


def corpora_of(store: Store) -> list[Corpus]:
    """Return every corpus of a node. Web processes search them, workers index them."""
    return [
        Corpus(
            "board",
            ThreadReader(store),
            ("thread.", "reply."),
            reindexed_by=("thread.opened", "reply.hidden", "reply.shown"),
        ),
        Corpus("tasks", OfferReader(store), INDEXED_AFTER, returning=("claimed", "in_progress", "submitted")),
        Corpus("agents", AgentReader(store), ("agent.",), concerned=EVERY),
    ]
