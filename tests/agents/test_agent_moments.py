"""Entries of the directory at moments that the random steps of `test_agent_machine` reach too seldom."""

from collections.abc import Iterator

import pytest

from node.agents.store import CALM, MAX_PAUSE_DAYS
from tests.agents.test_agent_machine import DAY, ELSEWHERE, LIFE, MINUTE, URL, WEEK, EntryMachine


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


def test_a_hidden_entry_stays_hidden_however_its_card_changes(machine: EntryMachine) -> None:
    machine.post()
    machine.the_card_is_good()
    machine.probe("unreachable", 1)
    machine.wait(WEEK)
    machine.probe("unreachable", 1)
    machine.a_probe_finds_another_card("unreachable", ELSEWHERE)
    machine.all_of_it_was_told()
    machine.it_is_in_the_lists_that_say_so()


def test_only_an_agent_that_is_called_elsewhere_is_as_alive_as_one_probe_has_found_it(machine: EntryMachine) -> None:
    machine.post()
    machine.the_card_is_good()
    machine.probe("open", 1)
    for url in (URL, ELSEWHERE):
        machine.a_probe_finds_another_card("gated", url)
        machine.the_entry_is_what_it_must_be()


def test_what_a_worker_found_that_was_held_up_does_not_replace_what_another_has_found_since(
    machine: EntryMachine,
) -> None:
    machine.post()
    machine.the_card_is_good()
    machine.probe("open", 1)
    machine.wait(DAY)
    machine.a_probe_finds_another_card("open", ELSEWHERE)  # followed by a late probe (`_probed`)
    machine.the_entry_is_what_it_must_be()


def test_an_agent_that_is_posted_again_is_as_alive_as_the_probes_before_have_found_it(machine: EntryMachine) -> None:
    machine.post()
    machine.the_card_is_good()
    machine.probe("gated", 1)
    machine.probe("open", 1)
    machine.post()
    machine.the_card_is_good()
    machine.the_entry_is_what_it_must_be()
    machine.probe("open", 1)
    machine.the_entry_is_what_it_must_be()
    machine.probe("open", 1)
    machine.the_entry_is_what_it_must_be()


def test_probes_become_rarer_while_they_find_nothing_new(machine: EntryMachine) -> None:
    machine.post()
    machine.the_card_is_good()
    machine.probe("open", 1 + MAX_PAUSE_DAYS * CALM)
    machine.probe("gated", 1)
    machine.probe("open", CALM)


def test_an_agent_that_is_posted_again_before_any_worker_has_checked_it_waits_as_long_again(
    machine: EntryMachine,
) -> None:
    machine.post()
    machine.wait(DAY - MINUTE)
    machine.post()
    machine.wait(60 * MINUTE)
    machine.the_entry_is_what_it_must_be()
    machine.the_card_is_good()
    machine.it_is_in_the_lists_that_say_so()


def test_the_end_of_a_hidden_entry_is_not_told_of_as_a_second_removal(machine: EntryMachine) -> None:
    machine.post()
    machine.the_card_is_good()
    machine.probe("unreachable", 1)
    machine.wait(WEEK)
    machine.probe("unreachable", 1)
    machine.it_is_in_the_lists_that_say_so()
    machine.wait(WEEK)
    machine.wait(WEEK)
    machine.wait(WEEK)
    machine.wait(2 * DAY)
    machine.the_entry_is_what_it_must_be()
    machine.all_of_it_was_told()


def test_an_agent_that_is_posted_again_and_again_is_listed_all_the_same(machine: EntryMachine) -> None:
    """Otherwise each posting would make the result of the check under way stale, and anybody could keep an agent out of
    the directory.
    """
    machine.post()
    machine.a_worker_begins_a_check()
    machine.post()
    machine.the_card_is_good()
    machine.it_is_in_the_lists_that_say_so()


def test_nothing_that_probes_have_found_before_an_agent_was_hidden_counts_once_it_is_listed_again(
    machine: EntryMachine,
) -> None:
    machine.post()
    machine.the_card_is_good()
    machine.probe("unreachable", 1)
    machine.wait(WEEK)
    machine.probe("unreachable", 1)
    machine.post()
    machine.the_card_is_good()
    machine.the_entry_is_what_it_must_be()
    machine.it_is_in_the_lists_that_say_so()


def test_who_posts_an_agent_that_is_there_already_is_not_taken_for_its_author(machine: EntryMachine) -> None:
    """Removing everything that such a client left must not remove the agent."""
    machine.post()
    machine.post()
    machine.all_of_it_was_told()
    machine.the_card_is_good()
    machine.post()
    machine.all_of_it_was_told()


def test_an_agent_that_is_checked_again_does_not_show_what_was_wrong_before(machine: EntryMachine) -> None:
    machine.post()
    machine.the_card_is_bad()
    machine.post()
    machine.the_entry_is_what_it_must_be()
