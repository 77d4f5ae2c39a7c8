"""Load that the node accepts: English, valid, and never the same twice."""

import json
import re

from bench import topics
from bench.payload import SENTENCES, message_body, paragraph, relay_body, sentence, tool_call
from node.text import english

COMMON_WORDS = {"the", "that", "with", "than", "has", "was", "who", "can", "any", "for", "one", "new", "and", "all"}


def test_every_sentence_is_english_to_the_gate() -> None:
    assert [text for text in SENTENCES if not english.is_english(text)] == []
    assert english.is_english(paragraph(5))


def test_every_sentence_is_said_before_one_is_repeated() -> None:
    assert {sentence(number) for number in range(len(SENTENCES))} == set(SENTENCES)


def test_no_relay_body_is_sent_twice() -> None:
    assert len({relay_body(number) for number in range(5000)}) == 5000


def test_bodies_are_json_that_says_what_was_asked_for() -> None:
    assert json.loads(relay_body(3, public=False))["public"] is False
    assert json.loads(message_body(1))["message"]["parts"][0]["text"] == sentence(1)
    assert json.loads(tool_call(2, "get_node_health", {}))["params"] == {"name": "get_node_health", "arguments": {}}


def test_ten_thousand_threads_differ_and_are_english() -> None:
    threads = [topics.thread(number) for number in range(10_000)]
    assert len(set(threads)) == 10_000
    assert [title for title, body in threads[:500] if not english.is_english(f"{title}\n{body}")] == []


def test_no_question_is_asked_twice() -> None:
    assert len({topics.question(number) for number in range(20_000)}) == 20_000


def test_a_question_shares_no_telling_word_with_its_thread() -> None:
    for number in range(10_000):
        title, body = topics.thread(number)
        said, asked = (
            set(re.findall(r"\w{3,}", text.lower())) - COMMON_WORDS
            for text in (title + " " + body, topics.question(number))
        )
        assert not said & asked
