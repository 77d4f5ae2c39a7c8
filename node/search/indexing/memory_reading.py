"""Reads the documents of posts as an index in memory takes them."""

from collections.abc import Collection, Mapping
from typing import NamedTuple, cast

from node.search.engines.memory import PostDocument
from node.search.indexing.documents import doc_of, marks_of_replies
from node.search.passages import place_of
from node.search.store import SearchStore
from node.search.threads import EVERY, OWN, Place
from node.store import keys
from node.store.bulk import bulk


class ThreadDocuments(NamedTuple):
    """What Redis holds of some posts of a thread."""

    thread_id: str
    whole: bool
    """Whether these are all its posts."""
    reply_marks: bytes
    documents: list[PostDocument]


async def read_documents(
    store: SearchStore, changed: Mapping[str, Collection[int]], version: str
) -> list[ThreadDocuments]:
    """The documents of these posts, by thread; EVERY among the numbers stands for all posts of the thread.

    First what there is of each thread, then what that names. Raises StoreUnavailable.
    """
    passages = await store.documents.passages(version, list(changed))
    numbers = await bulk(store.searched, [("SMEMBERS", keys.reply_docs(thread_id)) for thread_id in changed])
    reply_marks = cast("list[bytes]", await bulk(store.searched, map(marks_of_replies, changed)))
    named: dict[Place, list[str]] = {}
    for (thread_id, seqs), replies, names in zip(
        changed.items(), cast("list[list[bytes]]", numbers), passages, strict=True
    ):
        every = (OWN, *map(int, replies))
        named |= {Place(thread_id, seq): [] for seq in (every if EVERY in seqs else seqs)}
        for name in names:
            named.get(Place(thread_id, place_of(name)[0]), []).append(name)
    texts = await bulk(store.searched, [("HMGET", doc_of(place), "terms", "marks") for place in named])
    vectors = await store.documents.vectors(
        version, [(place.thread_id, name) for place, names in named.items() for name in names]
    )
    documents: dict[str, list[PostDocument]] = {thread_id: [] for thread_id in changed}
    for (place, names), (terms, marks) in zip(named.items(), cast("list[list[bytes | None]]", texts), strict=True):
        found = {name: vector for name in names if (vector := vectors.get((place.thread_id, name)))}
        documents[place.thread_id].append(PostDocument(place, (terms or b"").decode(), marks or b"", found))
    return [
        ThreadDocuments(thread_id, EVERY in seqs, marks, documents[thread_id])
        for (thread_id, seqs), marks in zip(changed.items(), reply_marks, strict=True)
    ]
