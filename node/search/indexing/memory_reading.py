"""Reads the documents of posts as an index in memory takes them."""

from collections.abc import Collection, Mapping
from typing import NamedTuple, cast

from node.search.corpus import EVERY, OWN, Place
from node.search.engines.memory import PostDocument
from node.search.index_versions import IndexVersion
from node.search.indexing.documents import doc_of, marks_of_replies
from node.search.passages import place_of
from node.search.store import SearchStore
from node.search.vectors import converted
from node.store.bulk import bulk


class EntityDocuments(NamedTuple):
    """What Redis holds of some posts of an entity."""

    entity_id: str
    whole: bool
    """Whether these are all its posts."""
    reply_marks: bytes
    documents: list[PostDocument]


async def read_documents(
    store: SearchStore, changed: Mapping[str, Collection[int]], version: IndexVersion | None
) -> list[EntityDocuments]:
    """The documents of these posts, by entity; EVERY among the numbers stands for all posts of the entity.

    First what there is of each entity, then what that names. Raises StoreUnavailable.
    """
    name, scalar = (version.name, version.scalar) if version else ("", "float32")
    passages = await store.documents.passages(name, list(changed))
    numbers = await bulk(store.searched, [("SMEMBERS", store.keys.reply_docs(entity_id)) for entity_id in changed])
    reply_marks = cast(
        "list[bytes]", await bulk(store.searched, (marks_of_replies(store.keys, each) for each in changed))
    )
    named: dict[Place, list[str]] = {}
    for (entity_id, seqs), replies, names in zip(
        changed.items(), cast("list[list[bytes]]", numbers), passages, strict=True
    ):
        every = (OWN, *map(int, replies))
        named |= {Place(entity_id, seq): [] for seq in (every if EVERY in seqs else seqs)}
        for passage in names:
            named.get(Place(entity_id, place_of(passage)[0]), []).append(passage)
    texts = await bulk(store.searched, [("HMGET", doc_of(store.keys, place), "terms", "marks") for place in named])
    vectors = await store.documents.vectors(
        name, [(place.entity_id, passage) for place, names in named.items() for passage in names]
    )
    documents: dict[str, list[PostDocument]] = {entity_id: [] for entity_id in changed}
    for (place, names), (terms, marks) in zip(named.items(), cast("list[list[bytes | None]]", texts), strict=True):
        found = {
            passage: converted(vector, scalar, "float32")
            for passage in names
            if (vector := vectors.get((place.entity_id, passage)))
        }
        documents[place.entity_id].append(PostDocument(place, (terms or b"").decode(), marks or b"", found))
    return [
        EntityDocuments(entity_id, EVERY in seqs, marks, documents[entity_id])
        for (entity_id, seqs), marks in zip(changed.items(), reply_marks, strict=True)
    ]
