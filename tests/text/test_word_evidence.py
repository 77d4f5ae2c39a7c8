"""Word evidence: what counts as a word, which words are counted, and what each is worth."""

import math

import pytest

from node.text import word_evidence
from node.text.lexicon import AMBIGUOUS, ENGLISH, FOREIGN, lexicon
from node.text.word_evidence import (
    PRIOR,
    UNKNOWN,
    UNKNOWN_ACCENTED,
    UNKNOWN_ACCENTED_NAME,
    UNKNOWN_FORMED,
    UNKNOWN_IN_CODE,
    UNKNOWN_NAME,
    weigh,
)


def points(text: str) -> float:
    """Return the sum of the points behind a level."""
    evidence = weigh(text)
    return round((evidence.level - PRIOR) * math.sqrt(len(evidence.words)), 6)


def test_known_words_carry_the_points_of_their_class() -> None:
    assert points("hello") == ENGLISH
    assert points("die") == AMBIGUOUS
    assert points("bonjour") == FOREIGN


def test_a_known_foreign_word_is_reported() -> None:
    assert weigh("say bonjour").has_foreign
    assert not weigh("say xyzzyq").has_foreign
    assert weigh("say xýzzyq").has_foreign, "an unknown word with an accent is taken for one"
    assert not weigh("say Xýzzyq").has_foreign, "unless it may be a name"


def test_the_level_is_the_sum_over_the_root_of_the_count() -> None:
    assert weigh("hello there friend bonjour").level == (3 * ENGLISH + FOREIGN) / 2 + PRIOR


@pytest.mark.parametrize(
    ("word", "worth"),
    [
        ("xyzzyq", UNKNOWN),
        ("retryable", UNKNOWN_FORMED),
        ("Xyzzyq", UNKNOWN_NAME),
        ("XYZZYQ", UNKNOWN_NAME),
        ("xyżzyq", UNKNOWN_ACCENTED),
        ("Xyżzyq", UNKNOWN_ACCENTED_NAME),
        ("µxyzzyq", UNKNOWN_ACCENTED),
    ],
)
def test_unknown_words_cost_by_their_looks(word: str, worth: float) -> None:
    assert points(word) == worth


@pytest.mark.parametrize("around", ["{}", "{}.", "({})"])
def test_a_name_is_known_in_its_own_case_only(around: str) -> None:
    assert points(around.format("Ahmad")) == ENGLISH
    assert points(around.format("ahmad")) == FOREIGN


def test_any_case_of_a_common_word_is_known() -> None:
    assert points("Hello") == points("HELLO") == points("hello")


@pytest.mark.parametrize("word", ["agent's", "they'll", "Ahmad's", "agent\u2019s", "Agent'S"])
def test_contractions_of_english_words_are_english(word: str) -> None:
    assert points(word) == ENGLISH


@pytest.mark.parametrize("word", ["xyzzyq's", "server'dan"])
def test_an_apostrophe_alone_makes_no_word_english(word: str) -> None:
    assert points(word) == UNKNOWN


@pytest.mark.parametrize(
    "text",
    [
        "a b c",
        "qwertyFooBar",
        "XYZZY",
        "Δt",
        "Δxy",
        "résumé",
        "naïve",
        "v2",
        "snake_case",
        "file.name",
        "f(x)",
        "call()",
        "100%",
        "— … !?",
        "👍",
    ],
)
def test_what_says_nothing_is_not_counted(text: str) -> None:
    assert weigh(text).words == []


def test_punctuation_around_a_word_does_not_matter() -> None:
    assert weigh("“hello,” (world)… **bold** <tag>").words == ["hello", "world", "bold", "tag"]


def test_hyphens_and_slashes_join_words_unless_a_part_is_none() -> None:
    assert weigh("read-only client/server").words == ["read", "only", "client", "server"]
    assert weigh("gpt-4o a/b2").words == []
    assert weigh("read-a-file").words == ["read", "file"]


@pytest.mark.parametrize("joint", ["-", "–", "—", "…", "/", "|", "...", ".."])
def test_whatever_joins_words_hides_none(joint: str) -> None:
    assert weigh(f"say{joint}bonjour").words == ["say", "bonjour"]
    assert weigh(f"say{joint}bonjour").has_foreign


def test_links_addresses_and_markup_are_left_out() -> None:
    text = r"see https://example.com/bonjour mail moi@example.com &nbsp;hello\nworld %(merci)s"
    assert weigh(text).words == ["see", "mail", "hello", "world"]


def test_set_phrases_of_english_are_not_held_against_it() -> None:
    assert weigh("we met ad hoc in São Paulo").words == ["we", "met", "in"]
    assert weigh("quid pro quo").words == []


def test_decomposed_accents_are_composed_before_the_look_up() -> None:
    assert points("gra\u0300cies") == points("gràcies") == FOREIGN


def test_unknown_words_cost_less_where_most_tokens_are_no_words() -> None:
    assert points("xyzzyq = 1 + 2") == points("xyzzyq @ @ @") == UNKNOWN_IN_CODE
    assert points("xyzzyq = one") == UNKNOWN + ENGLISH
    assert points("xyzzyq https://a.example https://b.example") == points("xyzzyq a@c.example b@c.example") == UNKNOWN


def test_unknown_words_cost_less_among_signs_of_code() -> None:
    code = "if (xyzzyq) { one = two; three = four } else { five() }"
    assert points(code) == UNKNOWN_IN_CODE + 6 * ENGLISH
    assert points("if (xyzzyq) is one and two then three is four, else five") == UNKNOWN + 11 * ENGLISH
    assert points("<xyzzyq> one") == UNKNOWN + ENGLISH  # too short to decide


@pytest.mark.parametrize(
    "sequence",
    ["ACGTTGCAACGTNNACGT" * 5, "acguuagcugacuagc", "MVLSPADKTNVKAAWGKVGAHAGEYGAEALERMFLSFPTTKTYFPHF"],
)
def test_sequences_of_bases_and_residues_are_no_words(sequence: str) -> None:
    assert weigh(f"align {sequence} now").words == ["align", "now"]


@pytest.mark.parametrize("run", ["xxxx", "Z" * 20, "é" * 50])
def test_one_letter_over_and_over_is_no_word(run: str) -> None:
    assert weigh(f"title {run} body").words == ["title", "body"]
    assert weigh("hola").words == weigh(f"{run} hola {run}").words != []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rx 1b de c5 41 66 da 90 03", ["rx"]),
        ("the key is DE DA 0F BA and new", ["the", "key", "is", "and", "new"]),
        ("00000010  de 01 fa da 02 fe 00 11\n00000020  be 00 ff 01", []),
    ],
)
def test_bytes_in_hexadecimal_form_are_no_words(text: str, words: list[str]) -> None:
    assert weigh(text).words == words
    assert not weigh(text).has_foreign


def test_a_few_short_words_are_no_bytes() -> None:
    assert weigh("1 2 3 4 5 6 7 8 de da fe").has_foreign
    assert weigh("they say de da fe da in a song").has_foreign


def test_names_of_tags_are_no_words() -> None:
    assert not weigh('<ul class="items"> <li class="item"> one </li> <nav>').has_foreign
    assert not weigh("one item </li> </ul>").has_foreign
    assert weigh("<ul> one of li").has_foreign
    assert weigh("ul and li").has_foreign


def test_long_words_are_no_sequences() -> None:
    assert weigh("DONAUDAMPFSCHIFFFAHRT").words != []
    assert weigh("caracteristicas").words != []
    assert weigh("GATTACA").words != []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("MIT license", ["license"]),
        ("NER model, SOC 2 report", ["model", "report"]),
        ("the (USA) and FLAC", ["the", "and"]),
        ("AR/VR glasses", ["glasses"]),
        ("USA", []),
        ("MIT USA NER", []),
        ("MIT, USA license xyzzyq", ["license", "xyzzyq"]),
        ("the NEW MIT plan", ["the", "new", "plan"]),
        ("CTO/CIO", ["cto"]),
        ("DOI 10.1000/xyz123", []),
    ],
)
def test_acronyms_that_are_foreign_words_too_are_not_counted(text: str, words: list[str]) -> None:
    assert weigh(text).words == words
    assert not weigh(text).has_foreign


@pytest.mark.parametrize(
    "text",
    [
        "HOLA",
        "HOLA AMIGO",
        "AYUDA CON ESTE INFORME",
        "CON ESTE PARA informe",
        "QUE SI CON LAS",
        "MIT USA NER SOC",
        "say BONJOUR to the team now",
        "the ÉTÉ plan is here",
    ],
)
def test_foreign_words_in_capitals_are_no_acronyms(text: str) -> None:
    assert weigh(text).has_foreign


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Who was Otto von Bismarck?", ["who", "was", "otto", "bismarck"]),
        ("Who was Abdullah al-Xyzzyq?", ["who", "was", "abdullah", "xyzzyq"]),
        ("Ask Isa bin Salman Al Xyzzyq for the key", ["ask", "isa", "bin", "salman", "xyzzyq", "for", "the", "key"]),
        ("We met Łukasz de Łyzzyq", ["we", "met", "łukasz", "łyzzyq"]),
    ],
)
def test_foreign_words_inside_names_are_not_counted(text: str, words: list[str]) -> None:
    assert weigh(text).words == words


@pytest.mark.parametrize(
    "text",
    [
        "Xyzzyq del Editor",
        "Kennst du Netflix?",
        "Who was Xyzzyq von Xyzzyq del Xyzzyq?",
        "We met the man von Berlin",
        "who was otto von bismarck",
        "THE XYZZYQ DEL EDITOR IS NEW",
        "The Xyzzyq Del Editor Is New",
    ],
)
def test_short_foreign_words_count_outside_names_and_without_english(text: str) -> None:
    assert weigh(text).has_foreign


def test_an_unknown_word_that_is_repeated_counts_twice() -> None:
    assert points("xyzzyq one xyzzyq two xyzzyq three xyzzyq") == 2 * UNKNOWN + 3 * ENGLISH
    assert points("bonjour one bonjour two bonjour") == 3 * FOREIGN + 2 * ENGLISH


def test_foreign_identifiers_count_only_where_nothing_is_a_word() -> None:
    assert weigh("hola_mundo_amigos").has_foreign
    assert not weigh("hello hola_mundo").has_foreign
    assert weigh("hello_mundo").words == weigh("hello_world_hola_mundo").words == []


@pytest.mark.parametrize("text", ["ich,auch,nicht,morgen", "nie;wiem;jak;to;jest", "x=hola y=mundo", "hola() mundo()"])
def test_foreign_words_count_however_they_are_joined(text: str) -> None:
    assert weigh(text).has_foreign


@pytest.mark.parametrize(
    "text",
    [
        "de,en,es,da",
        "7ich,8auch,9nicht",
        "https://example.org/ich-auch-nicht",
        "ich.auch.nicht@example.org",
        "nicht_ok",
    ],
)
def test_codes_links_and_single_words_in_identifiers_are_not_held_against_a_text(text: str) -> None:
    assert weigh(text).words == []


def test_an_option_of_a_command_is_only_counted_if_it_is_a_known_word() -> None:
    assert weigh("gpg --recv-xyzzyq").words == weigh("gpg --recv").words
    assert points("tar --extract") == points("tar extract") == 2 * ENGLISH
    assert weigh("tar --hola").has_foreign
    assert weigh("tar --Hola").has_foreign
    assert points("tar -xyzzyq") == ENGLISH + UNKNOWN


def test_every_key_of_the_lexicon_can_be_asked_for() -> None:
    assert len(lexicon()) > 86_000
    assert all(len(word) > 1 and word[0] != "'" != word[-1] and word.replace("'", "").isalpha() for word in lexicon())
    assert all([each.lower() for each in weigh(word).words] == [word.lower()] for word in list(lexicon())[::500])


@pytest.mark.parametrize(
    "text",
    [
        "The build agent has finished a report, and will answer before noon.",
        "We'll share yesterday's well-known results (A to B); isn't it I who asks?",
        "a - & 7 !",
        "Say bonjour to a friend.",
        "Ad hoc, per se: the status quo of New York.",
        "Read%(name)s and&amp;write the notes\\nof the day.",
    ],
)
def test_a_window_has_the_same_evidence_when_its_tokens_have_been_seen_before(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_evidence, "ENGLISH_TOKENS", {})
    first = weigh(text)
    for token in text.split():
        weigh(f"hello {token} friend")
    assert weigh(text) == first


def test_the_tokens_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered: dict[str, tuple[str, ...]] = {}
    monkeypatch.setattr(word_evidence, "ENGLISH_TOKENS", remembered)
    monkeypatch.setattr(word_evidence, "MAX_TOKENS", 10)
    english = [word for word, points_of in lexicon().items() if points_of == ENGLISH and word.islower()][:60]
    for start in range(0, 60, 5):
        assert weigh(" ".join(english[start : start + 5])).level > 0
        assert len(remembered) <= 10
    assert english[-1] in remembered


def test_a_long_token_of_many_words_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered: dict[str, tuple[str, ...]] = {}
    monkeypatch.setattr(word_evidence, "ENGLISH_TOKENS", remembered)
    long, short = "-".join(["word"] * 20), "well-known"
    for token in (long, short):
        assert weigh(f"hello my dear friend {token} and hello") == weigh(f"hello my dear friend {token} and hello")
    assert long not in remembered
    assert remembered[short] == ("well", "known")
