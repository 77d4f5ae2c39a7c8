"""How much one client may hold while others have taken much of the node's total."""

import itertools

import pytest

from node.config import Settings
from node.share.capacity import share_of
from node.share.site import SITE_SHARE

INBOXES = Settings().max_inboxes
QUOTA = Settings().client_inboxes


def needed(times: int) -> int:
    """Return how many clients or sites it takes, one after the other, to take all inboxes, if each takes `times`
    clients' shares.
    """
    taken = 0
    for number in itertools.count(1):
        mine = 0
        while mine < share_of(QUOTA, taken / INBOXES) * times:
            mine, taken = mine + 1, taken + 1
            if taken == INBOXES:
                return number
    raise AssertionError


def test_a_quota_is_whole_while_half_of_the_total_is_free() -> None:
    assert [share_of(QUOTA, taken) for taken in (0.0, 0.25, 0.5)] == [QUOTA] * 3


def test_it_shrinks_faster_than_what_is_free() -> None:
    assert [share_of(QUOTA, taken) for taken in (0.625, 0.75, 0.875, 0.96875)] == [113, 50, 13, 1]


@pytest.mark.parametrize("taken", [0.999, 1.0, 1.2])
def test_at_the_end_there_is_one_for_each(taken: float) -> None:
    assert share_of(QUOTA, taken) == 1


@pytest.mark.parametrize("taken", [0.0, 0.9, 1.0])
def test_any_number_stays_any_number(taken: float) -> None:
    assert share_of(0, taken) == 0


def test_it_takes_many_clients_or_sites_to_leave_nothing_for_others() -> None:
    """Without shrinking shares, 500 clients or 63 sites would be enough."""
    assert needed(1) > 6000
    assert needed(SITE_SHARE) > 800
