"""Scripts: the share of letters outside Latin, counted over the whole text."""

import pytest

from node.text.scripts import share_of_others
from tests.text.languages import SCRIPTS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "déjà vu, Łódź, Phở ﬁne",
        "👍🎉 ❤️ 1️⃣",
        "“quoted” — ½ № ≤ ∞ ╭─╮",
        "λ = 2, Δt, 5 Ω",
        "\ue000\ud800",
    ],
)
def test_latin_symbols_and_pictures_are_no_other_script(text: str) -> None:
    assert share_of_others(text) == 0


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_every_script_but_latin_is_another_script(text: str) -> None:
    assert share_of_others(text) > 0.9
    assert 0.4 < share_of_others(text + "a" * len(text)) < 0.8


def test_dense_letters_count_twice() -> None:
    assert share_of_others("да yes!") == pytest.approx(2 / 5)
    assert share_of_others("你好 yes") == pytest.approx(4 / 7)


def test_greek_counts_by_words() -> None:
    assert share_of_others("λόγος ab") == pytest.approx(4 / 6)
    assert share_of_others("α β γ ab") == 0
