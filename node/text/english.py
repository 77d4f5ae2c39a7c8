"""The English gate for one text: whether the node may accept it.

A text whose words are all certainly English passes at once. Any other text is judged in windows of 160 characters. In
each window, the scripts decide first (`windows`, `scripts`), then the words (`word_evidence`). cld3 is asked only about
windows that both leave undecided, because on its own it rejects half of all short English texts. A long text is judged
by samples at places that its author cannot predict (`sampling`). `payload` decides which strings of a JSON payload are
prose. The gate is synchronous, takes microseconds, and never raises.
"""

from itertools import chain

from node.common.counters import VERDICTS
from node.text import sampling
from node.text.lexicon import foreign_parts
from node.text.sampling import SAMPLES, excerpt_of, samples_of
from node.text.scripts import share_of_others
from node.text.verdict import (
    SURE,
    LanguageVerdict,
    detector,
    is_clear_around_quotations,
    is_foreign,
    judge_window,
    second_opinion,
    size_of,
)
from node.text.windows import WINDOW_CHARACTERS, clean, windows
from node.text.word_evidence import ENGLISH_TOKENS, MAX_READ_ALONE, is_plain

FOREIGN_WINDOWS_SHARE = 0.20
"""A text fails if this share of its words is in failing windows. A quotation stays below it."""

MAX_WHOLE_CHARACTERS = 1_920
"""Greatest length of a text of which all characters are judged. This costs about as much as SAMPLES samples of a longer
text. If fewer samples are allowed, the length is reduced in proportion."""

OTHER_SCRIPTS_SHARE = 0.10
"""Share of a long text's letters, anywhere in it, that may be outside the Latin script: enough for single words."""

FOREIGN_SAMPLES_SHARE = 0.08
"""A long text fails if this share of its samples is certainly foreign.

A text of which a fifth is foreign, wherever that part is, passes with a probability of 2 in 100; a text of which half
is foreign passes a few times in 10⁹. A foreign part of less than a twelfth counts as a quotation and passes.
"""

MIN_FOREIGN_SAMPLES = 2
"""Minimum number of foreign samples for which a long text fails. A single one may be a quoted sentence."""


def preload(secret: str = "") -> None:
    """Load the lexicon and cld3. Call this when a process starts, before its first request and before `gc.freeze`.

    Processes with the same `secret` give the same verdict on every text.
    """
    sampling.use_secret(secret)
    foreign_parts()
    detector()


def is_english(text: str, max_samples: int = SAMPLES) -> bool:
    """Return whether a text is English, or has no words of any language (`42`, an id, an emoji).

    Of a text that is too long to be read as a whole, `max_samples` samples are read at most. Counts the verdict.
    """
    passes = verdict(text, max_samples)
    VERDICTS[passes] += 1
    return passes


def verdict(text: str, max_samples: int = SAMPLES) -> bool:
    """Return the same verdict as `is_english` without counting it, for a second look at a text."""
    if len(text) > MAX_WHOLE_CHARACTERS * max_samples // SAMPLES:
        return _samples_pass(text, max_samples)
    if has_plain_words(text):
        return True
    if len(text) <= WINDOW_CHARACTERS:
        return _window_passes(clean(text)) or (">" in text and is_clear_around_quotations(text))
    return _windows_pass(windows(text)) or is_clear_around_quotations(text)


def has_plain_words(text: str) -> bool:
    """Return whether each token of a text is an English word by itself, or a number. False says nothing about the text.

    A text of such tokens passes in any division into windows, so this is a shortcut to the same verdict.
    """
    if not text.isascii():
        return False
    new = [token for token in text.split() if token not in ENGLISH_TOKENS]
    return len(new) <= MAX_READ_ALONE and all(map(is_plain, new))


def _window_passes(window: str) -> bool:
    margin, words, _ = judge_window(window)
    return margin >= SURE or (margin >= 0 and margin + second_opinion(words) >= 0)


def _windows_pass(all_windows: list[str]) -> bool:
    """Return the verdict on several windows. Ask cld3 only as long as its answer can change the verdict."""
    judged: list[LanguageVerdict] = []
    for window in all_windows:
        margin, _, foreign = judgement = judge_window(window)
        judged.append(judgement)
        if margin < SURE or foreign:
            break
    else:
        return True  # the case of most English texts
    failing = total = 0.0
    undecided: list[tuple[float, list[str]]] = []
    left = sum(map(len, all_windows))
    following = map(judge_window, all_windows[len(judged) :])
    for window, (margin, words, foreign) in zip(all_windows, chain(judged, following), strict=True):
        size = size_of(words)
        total += size + foreign
        failing += foreign
        if margin < 0:
            failing += size
        elif margin < SURE:
            undecided.append((margin, words))
        left -= len(window)
        if failing > FOREIGN_WINDOWS_SHARE * (total + left):
            return False  # even if all remaining windows are English: a window has no more words than characters
    limit = FOREIGN_WINDOWS_SHARE * total
    undecided_size = sum(size_of(words) for _, words in undecided)
    for margin, words in undecided:
        if failing >= limit or failing + undecided_size < limit:
            break
        undecided_size -= size_of(words)
        if margin + second_opinion(words) < 0:
            failing += size_of(words)
    return failing < limit


def _samples_pass(text: str, count: int) -> bool:
    """Return the verdict on a long text, by `count` samples."""
    excerpt = excerpt_of(text, count)
    if share_of_others(excerpt) > OTHER_SCRIPTS_SHARE:
        return False
    foreign = total = 0
    for sample in samples_of(text, excerpt, count):
        outcome = sample is None or is_foreign(sample)
        total += outcome is not None
        foreign += outcome is True
        if foreign >= max(MIN_FOREIGN_SAMPLES, FOREIGN_SAMPLES_SHARE * count):
            return False
    return foreign < max(MIN_FOREIGN_SAMPLES, FOREIGN_SAMPLES_SHARE * total)
