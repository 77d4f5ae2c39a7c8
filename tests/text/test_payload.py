"""Payloads: which strings of a JSON value are judged, alone or together, and how much of them is read."""

import json
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.common.counters import VERDICTS
from node.text import sampling
from node.text.payload import (
    MAX_INNER_JSON_CHARACTERS,
    MAX_MEMBERS,
    MAX_SHOWN_STRINGS,
    MAX_VALUES,
    MIN_SAMPLES,
    PROSE,
    displayable,
    foreign_field,
    may_be_shown,
    payload_is_english,
    text_payload_is_english,
)
from node.text.sampling import SAMPLES
from tests.text.languages import english, foreign

FOREIGN = "Buenos días, el servidor ya está funcionando otra vez"
ENGLISH = "Good morning, the server is up and running again"


@pytest.mark.parametrize("key", PROSE)
def test_each_prose_field_is_judged_alone(key: str) -> None:
    assert payload_is_english({key: ENGLISH})
    assert not payload_is_english({key: FOREIGN, "context": ENGLISH * 20})


def test_other_strings_are_judged_together() -> None:
    assert not payload_is_english({"remark": FOREIGN})
    assert payload_is_english({"remark": "hola", "context": ENGLISH * 3})


def test_strings_at_any_depth_count() -> None:
    assert not payload_is_english({"params": {"arguments": [{"query": FOREIGN}]}})
    assert not payload_is_english([[[FOREIGN]]])
    assert not payload_is_english(FOREIGN)


@pytest.mark.parametrize("value", [{}, [], None, True, 42, 0.5, {"n": [1, 2, {"x": None}]}])
def test_what_holds_no_words_passes(value: object) -> None:
    assert payload_is_english(value)


@pytest.mark.parametrize(
    "key",
    [
        "author",
        "Agent",
        "user_id",
        "callback-url",
        "id",
        "ids",
        "lang",
        "created_date",
        "customers",
        "cities",
        "addresses",
    ],
)
def test_labels_are_not_prose(key: str) -> None:
    assert payload_is_english({key: "señor müller"})
    assert payload_is_english({key: ["señor müller", "bonjour"]})


@pytest.mark.parametrize("key", ["displayName", "userID", "userIds", "homeCity", "timeZone", "Full Name", "home.city"])
def test_the_last_word_of_a_key_tells_a_label_however_words_are_joined(key: str) -> None:
    assert payload_is_english({key: "señor müller"})


@pytest.mark.parametrize("key", ["userMessage", "nameRemark", "rename", "IDEA"])
def test_a_label_inside_a_word_or_before_another_word_is_no_label(key: str) -> None:
    assert not payload_is_english({key: "bonjour mes amis"})


@pytest.mark.parametrize(
    "value",
    [
        "Ulica Marszałkowska 104, 00-017 Warszawa",
        "Émilie Le Sauvage De La Tour",
        "Na Letné 416, Mladá Vožice",
        "Calle de Alcalá 42, 28014 Madrid",
        "ul. Marszałkowska 84/92, 00-514 Warszawa",
        "Rue de la Loi 200, 1049 Bruxelles, Belgium",
    ],
)
def test_a_long_label_is_written_with_capitals(value: str) -> None:
    assert payload_is_english({"customer": {"address": value}})
    assert not payload_is_english({"customer": {"address": value.lower()}})
    assert not payload_is_english({"customer": {"remark": value}})


@pytest.mark.parametrize(
    "value",
    [
        {"flight": "LO 3907", "origin": "Kraków", "destination": "Gdańsk", "passengers": ["Łukasz Żak"]},
        {"event": "meetup", "venue": "Żytnia 18", "organizer": "Šárka Nováková", "attendees": ["Đặng Thị Ngọc"]},
        {"customer": "Björk Guðmundsdóttir", "items": 3, "supplier": "Przędzalnia Łódź", "province": "Łódzkie"},
        {"firstName": "Łukasz", "lastname": "Wójcik", "bank": "Société Générale", "balance": 12.5},
        {"restaurant": "La Taquería", "dish": "Boeuf bourguignon", "ingredients": ["jalapeño", "masa harina"]},
        {"movie": "Das Boot", "book": "Hundert Jahre Einsamkeit", "songs": ["Für Elise", "Non, je regrette"]},
        {"species": "Quercus robur", "genus": "Drosophila", "compound": "benzyl butyl phthalate", "drug": "metformin"},
    ],
)
def test_names_of_people_organizations_places_works_and_species_are_not_prose(value: dict[str, object]) -> None:
    assert payload_is_english(value)
    assert not payload_is_english({f"{key}Remark": member for key, member in value.items()})


def test_a_long_text_under_a_label_is_judged() -> None:
    assert not payload_is_english({"name": FOREIGN})
    assert not payload_is_english({"name": "Das ist mein neues Haus"})
    assert not payload_is_english({"name": "Das ist ein Haus am See"})
    assert not payload_is_english({"name": "bonjourlemonde-" * 6 + "voilà merci danke"})


def test_a_label_is_the_end_of_a_key_not_a_part_of_it() -> None:
    assert not payload_is_english({"idea": "bonjour mes amis"})
    assert not payload_is_english({"id_remark": "bonjour mes amis"})


def test_keys_count_only_if_they_are_phrases() -> None:
    assert payload_is_english({"nombre": 1, "fecha": 2})
    assert not payload_is_english({"nombre de la persona": 1})


def test_json_in_a_text_payload_is_judged_by_its_prose() -> None:
    assert text_payload_is_english(json.dumps({"message": ENGLISH, "author": "señor müller"}))
    assert not text_payload_is_english("\n " + json.dumps({"message": FOREIGN, "context": ENGLISH * 20}))


def test_json_inside_a_string_is_judged_by_its_prose() -> None:
    inner = json.dumps({"message": FOREIGN, "context": ENGLISH * 20})
    assert not payload_is_english({"message": inner})
    assert not payload_is_english({"data": {"raw": inner}})
    assert not payload_is_english({"data": json.dumps({"raw": inner})})
    assert payload_is_english({"message": json.dumps({"author": "señor müller"})})


def test_json_with_escaped_lone_surrogates_is_judged() -> None:
    assert not text_payload_is_english('{"message": "\\ud800 bonjour mes amis"}')


def test_a_large_json_text_is_judged_as_text() -> None:
    assert not text_payload_is_english(
        json.dumps([FOREIGN] * (2 * MAX_INNER_JSON_CHARACTERS // len(FOREIGN)), ensure_ascii=False)
    )


def test_a_text_that_only_looks_like_json_is_judged_as_text() -> None:
    assert text_payload_is_english("[draft] please review this today")
    assert not text_payload_is_english("[nota] por favor revise esto hoy")


def test_a_wide_list_is_sampled_over_its_whole_length() -> None:
    assert not payload_is_english([ENGLISH] * 500 + [FOREIGN] * 500)
    assert payload_is_english([ENGLISH, *[1] * (MAX_MEMBERS * 20)])


def test_a_prose_field_among_very_many_keys_is_found() -> None:
    filler: dict[str, object] = {f"k{number}": number for number in range(20_000)}
    assert not payload_is_english({**filler, "message": FOREIGN})


def test_no_more_values_than_the_limit_are_read() -> None:
    deep: object = FOREIGN
    for _ in range(MAX_VALUES):
        deep = [deep]
    assert payload_is_english(deep)
    assert not payload_is_english([[FOREIGN]] * MAX_MEMBERS)


def test_many_prose_fields_are_still_judged_one_by_one() -> None:
    fields: dict[str, object] = dict.fromkeys(PROSE, ENGLISH * 200)
    assert payload_is_english(fields)
    assert not payload_is_english({**fields, PROSE[-1]: FOREIGN * 200})


def test_long_fields_beyond_the_first_share_what_one_of_them_may_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[str, int]] = []

    def noted(text: str, excerpt: str, count: int) -> Iterator[str | None]:
        taken.append((text, count))
        return sampling.samples_of(text, excerpt, count)

    monkeypatch.setattr("node.text.english.samples_of", noted)
    fields: dict[str, object] = {name: f"{name}: {ENGLISH * 200}" for name in reversed(PROSE[:-1])}
    assert payload_is_english(fields)
    assert taken[:2] == [(fields[name], SAMPLES) for name in PROSE[:2]]
    assert sum(count for _, count in taken[2:]) <= SAMPLES + MIN_SAMPLES * len(PROSE)


def test_json_inside_strings_is_parsed_up_to_a_total() -> None:
    message = ENGLISH.ljust(MAX_INNER_JSON_CHARACTERS // 3)
    inner = json.dumps({"message": message})
    assert Counter(displayable([inner] * 3).split("\n")) == {message: 2, inner: 1}


def test_more_prose_in_inner_documents_than_fields_exist_is_judged_together() -> None:
    inner = json.dumps(dict.fromkeys(PROSE, FOREIGN))
    assert not payload_is_english({"message": ENGLISH, "documents": [inner] * 3})


def test_of_documents_inside_documents_only_so_many_texts_are_judged_by_themselves() -> None:
    before = VERDICTS[True]
    assert payload_is_english(dict.fromkeys(PROSE, json.dumps(dict.fromkeys(PROSE, "We met at noon."))))
    assert VERDICTS[True] - before == len(PROSE) + 1


def test_prose_below_the_top_level_is_judged_together_with_all_else() -> None:
    assert payload_is_english({"data": {"message": "Hola mundo"}, "notes": ENGLISH, "remark": ENGLISH * 5})


def test_the_strings_that_were_judged_are_shown_in_their_order() -> None:
    value = {"from": "señor müller", "remark": ENGLISH, "steps": ["Open it", {"id": 7, "then": "close it"}], "n": 1}
    assert displayable(value) == f"{ENGLISH}\nOpen it\nclose it"
    assert displayable(json.dumps(value)) == displayable(value)
    assert displayable({"agent": "a-7", "step one": "open it", "text": ENGLISH}) == f"{ENGLISH}\nopen it"


def test_no_member_is_shown_that_was_not_looked_at() -> None:
    wide = [ENGLISH if place % 11 == 0 else FOREIGN for place in range(MAX_MEMBERS * 11)]
    assert payload_is_english(wide)
    assert FOREIGN not in displayable(wide)
    assert displayable([[ENGLISH] * MAX_MEMBERS] * 10).count("\n") == MAX_SHOWN_STRINGS - 1


def test_labels_are_shown_if_there_is_nothing_else_and_they_are_english() -> None:
    assert displayable({"from": "agent-7", "to": "agent-9", "type": "ping"}) == "agent-7\nagent-9\nping"
    assert displayable({"name": "Necesito ayuda urgente"}) == ""
    assert displayable({"from": "Привет, мой друг"}) == ""
    assert displayable({}) == ""


def test_a_text_that_is_json_is_shown_as_it_is_only_if_it_would_pass_so() -> None:
    assert may_be_shown(ENGLISH)
    assert may_be_shown(json.dumps({"from": "agent-7", "type": "ping"}))
    assert not may_be_shown(json.dumps({"name": "Necesito ayuda urgente"}))


def test_the_field_that_is_named_is_the_one_for_which_a_payload_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judged again by fewer samples than before, the field could pass."""
    monkeypatch.setattr(sampling, "_KEY", bytearray(32))  # samples at the same places in every run
    choice = Random(6)
    refused = 0
    for _ in range(100):
        message = english(800, choice) + foreign("German", 200, choice)
        payload: dict[str, object] = {"message": message, "title": "Report", "summary": "All is well.", "hello": "you"}
        if not payload_is_english(payload):
            refused += 1
            assert foreign_field(payload) == "message"
    assert refused


def test_if_no_field_is_foreign_by_itself_the_others_are_meant() -> None:
    assert foreign_field({"title": "Weekly report", "remark": FOREIGN}).startswith("what its other fields say")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda children: (
        st.lists(children) | st.dictionaries(st.sampled_from([*PROSE, "id", "two words"]) | st.text(), children)
    ),
    max_leaves=30,
)


@given(json_values)
@settings(max_examples=200)
def test_no_payload_makes_it_raise(value: object) -> None:
    assert payload_is_english(value) in (True, False)
    assert text_payload_is_english(json.dumps([value])) == payload_is_english([value])
    assert isinstance(displayable(value), str)
