"""Waiting reads: what they keep in memory meanwhile."""

import asyncio
import weakref

from node.store import Store
from node.store.long_poll import wait_for_change

LONG = 60.0  # s; longer than anything here takes
CHANNEL = "thread:{2a}:1"


class Thing:
    """The result of a read."""


async def test_a_read_that_waits_keeps_nothing_of_what_it_has_read(store: Store) -> None:
    read: list[weakref.ref[Thing]] = []
    waits = asyncio.Event()

    async def look() -> Thing:
        read.append(weakref.ref(thing := Thing()))
        return thing

    def lasts(_: Thing) -> float:
        waits.set()
        return LONG

    waiting = asyncio.create_task(
        wait_for_change(store.wakeups, CHANNEL, LONG, look, is_new=lambda _: len(read) == 2, lasts=lasts)
    )
    await waits.wait()  # `lasts` is the last call before the read waits
    assert [each() for each in read] == [None]
    await store.command("SPUBLISH", CHANNEL, "reply")
    assert await waiting is read[1]()
