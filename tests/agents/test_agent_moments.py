"""An agent that is posted again shortly before the end of its entry: steps that chance takes too seldom."""

from collections.abc import Iterator

import pytest

from tests.agents.test_agent_machine import LIFE, MINUTE, EntryMachine


@pytest.fixture
def machine() -> Iterator[EntryMachine]:
    machine = EntryMachine()
    yield machine
    machine.teardown()


def test_an_entry_that_is_posted_again_shortly_before_its_end_is_checked_though_no_worker_does_so_at_once(
    machine: EntryMachine,
) -> None:
    machine.post()
    machine.the_card_is_good()
    machine.it_is_in_the_lists_that_say_so()
    machine.wait(LIFE - MINUTE)
    machine.post()
    machine.a_listed_one_ends_when_it_must_whether_or_not_a_worker_removes_it()
    machine.it_is_in_the_lists_that_say_so()
    machine.wait(60 * MINUTE)
    machine.a_listed_one_ends_when_it_must_whether_or_not_a_worker_removes_it()
    machine.the_entry_is_what_it_must_be()
    machine.the_card_is_good()
    machine.it_is_in_the_lists_that_say_so()


def test_an_entry_whose_card_is_bad_shortly_before_its_end_keeps_its_place_until_then(machine: EntryMachine) -> None:
    machine.post()
    machine.the_card_is_good()
    machine.wait(LIFE - 20 * MINUTE)
    machine.post()
    machine.the_card_is_bad()
    machine.it_is_in_the_lists_that_say_so()
    machine.it_has_its_place_and_its_turn()
    machine.wait(20 * MINUTE)
    machine.the_entry_is_what_it_must_be()
    machine.it_has_its_place_and_its_turn()


def test_an_agent_that_is_checked_again_does_not_show_what_was_wrong_before(machine: EntryMachine) -> None:
    machine.post()
    machine.the_card_is_bad()
    machine.post()
    machine.the_entry_is_what_it_must_be()
