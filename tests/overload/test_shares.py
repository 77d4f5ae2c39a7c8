"""Under overload, sites share the limit: a site that sends hundreds of requests at a time is refused, and others are
not.
"""

from node.overload.admission import MAX_QUEUE_SECONDS
from tests.overload.door import MODEST, Door, refused
from tests.support.servers import eventually


async def test_beyond_the_limit_each_site_has_its_share(door: Door) -> None:
    door.knows_clients()
    door.overload(limit=4)
    assert refused(door.come(6)) == [False] * 4 + [True] * 2
    assert refused(door.come(3, client=MODEST)) == [False, False, True]  # the limit of 4 is shared by two sites
    assert refused(door.come(1, client="203.0.113.9")) == [False]
    assert refused(door.come(1, client="203.0.113.10")) == [False]
    # Shared by four sites; this one is the fifth, which leaves nothing for a sixth.
    assert refused(door.come(1, client="203.0.113.11")) == [False]
    assert refused(door.come(1, client="203.0.113.12")) == [True]


async def test_the_clients_of_a_network_have_one_share(door: Door) -> None:
    door.knows_clients()
    door.overload(limit=2)
    door.come(2)
    assert refused(door.come(1, client="2001:db8:1:1::/64")) == [False]
    assert refused(door.come(1, client="2001:db8:1:2::/64")) == [True]
    assert refused(door.come(1, client="2001:db8:2:1::/64")) == [False]


async def test_a_share_is_free_again_when_its_requests_have_ended(door: Door) -> None:
    door.knows_clients()
    door.overload(limit=4)
    door.come(4)
    door.come(2, client=MODEST)
    assert refused(door.come(1, client=MODEST)) == [True]
    await eventually(lambda: len(door.begun) == 6)
    door.end.set()
    await eventually(lambda: all(watcher.task is not None and watcher.task.done() for watcher in door.begun))
    door.end.clear()
    assert refused(door.come(4)) == [False] * 4
    assert refused(door.come(3, client=MODEST)) == [False, False, True]


async def test_a_share_that_was_taken_a_while_ago_still_counts(door: Door) -> None:
    door.knows_clients()
    await door.next_group()
    door.overload(limit=4)
    door.come(4)
    door.come(2, client=MODEST)
    await eventually(lambda: len(door.begun) == 6)
    await door.next_group()
    assert refused(door.come(1, client=MODEST)) == [True]
    assert refused(door.come(1, client="203.0.113.9")) == [False]


async def test_who_is_within_its_share_is_not_refused_for_having_waited(door: Door) -> None:
    door.knows_clients()
    door.overload(limit=6)
    eager = door.come(7)
    modest = door.come(2, client=MODEST)
    assert refused(eager) == [False] * 6 + [True]
    assert refused(modest) == [False] * 2
    door.now += 2 * MAX_QUEUE_SECONDS
    [fresh] = door.come(1, client=MODEST)
    await eventually(lambda: len(door.begun) == 6)
    assert refused(eager) == [True] * 3 + [False] * 3 + [True]  # until the site is within its share
    assert door.begun == [fresh, *modest[::-1], *eager[5:2:-1]], "the newest first"
    assert (door.admission.refused_early, door.admission.refused_late) == (1, 3)


async def test_who_is_alone_has_the_whole_limit_however_long_it_waited(door: Door) -> None:
    door.knows_clients()
    door.overload(limit=6)
    eager = door.come(7)
    door.now += 2 * MAX_QUEUE_SECONDS
    await eventually(lambda: len(door.begun) == 6)
    assert refused(eager) == [False] * 6 + [True]


async def test_who_came_before_the_overload_has_its_share_as_well(door: Door) -> None:
    door.knows_clients()
    eager, modest = door.come(4), door.come(1, client=MODEST)
    door.overload(limit=4)
    assert refused(door.come(5)) == [False] * 4 + [True]
    door.now += 2 * MAX_QUEUE_SECONDS
    await eventually(lambda: len(door.begun) == 3)
    assert refused(eager) == [True] * 4
    assert refused(modest) == [False]
    assert door.admission.refused_late == 6


async def test_where_more_sites_came_than_can_be_served_all_that_waited_too_long_are_refused(door: Door) -> None:
    door.knows_clients()
    waiting = [door.come(1, client=f"203.0.113.{number}")[0] for number in range(5)]
    door.overload(limit=4)
    door.come(1)
    assert door.come(5)[-1].refused
    door.now += 2 * MAX_QUEUE_SECONDS
    await eventually(lambda: all(refused(waiting)))
