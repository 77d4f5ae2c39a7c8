"""Entities are read again after they have been put into lists, in case they have changed meanwhile."""

from node.store import Store, keys
from node.store.lists import Listing, project

FIELDS = ("status", "updated")


async def test_what_is_changed_while_it_is_listed_is_listed_again_until_it_stays(store: Store) -> None:
    placed: list[Listing] = []
    changes = ["closed", "hidden"]

    async def place(listing: Listing) -> None:
        placed.append(listing)
        if changes:
            await store.command("HSET", keys.thread("a"), "status", changes.pop(0))

    for thread_id in ("a", "b"):
        await store.command("HSET", keys.thread(thread_id), "status", "open", "updated", "1")
    await project(store, ["a", "b"], keys.thread, FIELDS, place, deciding=1)
    assert placed == [
        {"a": [b"open", b"1"], "b": [b"open", b"1"]},
        {"a": [b"closed", b"1"]},
        {"a": [b"hidden", b"1"]},
    ]


async def test_only_what_decides_about_the_list_is_compared(store: Store) -> None:
    placed: list[Listing] = []

    async def place(listing: Listing) -> None:
        placed.append(listing)
        await store.command("HSET", keys.thread("a"), "updated", "2")

    await store.command("HSET", keys.thread("a"), "status", "open", "updated", "1")
    await project(store, ["a"], keys.thread, FIELDS, place, deciding=1)
    assert placed == [{"a": [b"open", b"1"]}]
