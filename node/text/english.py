"""The English gate for one text: decides, within microseconds, whether the node may take it.

Words decide first (`word_evidence`), character scripts before them (`windows`, `scripts`); cld3 is asked only about
windows the words leave undecided, because alone it rejects half of all short English. A long text is judged by samples
at places that its author cannot know (`sampling`). What is prose in a JSON payload is `payload`'s business. Everything
here is synchronous, CPU only, and never raises on any `str`.
"""

from node.common.counters import VERDICTS
from node.text import sampling
from node.text.lexicon import lexicon
from node.text.sampling import SAMPLES, excerpt_of, samples_of
from node.text.scripts import share_of_others
from node.text.verdict import SURE, detector, is_foreign, judged, second_opinion, size_of
from node.text.windows import WINDOW, clean, windows

FOREIGN_WINDOWS_SHARE = 0.20
"""Share of a text's words in failing windows at which the text fails: a paragraph, not a quotation."""

WHOLE = 1_920
"""Characters of a text that is read whole, which costs about as much as SAMPLES; in proportion, if there are fewer."""

OTHER_SCRIPTS_SHARE = 0.10
"""Share of a long text's letters that may be outside the Latin script, wherever they stand: words, not pages."""

FOREIGN_SAMPLES_SHARE = 0.08
"""Share of a long text's samples at which it fails if they are foreign beyond doubt.

If a fifth of a text is foreign, wherever it stands, fewer of SAMPLES are in 2 of 100 texts; if half of it is, in a few
of 10⁹. Less than a twelfth passes: a quotation.
"""

FEWEST_FOREIGN = 2
"""Foreign samples at least: one may be the one sentence that a long text quotes."""


def preload(secret: str = "") -> None:
    """Load the lexicon and cld3. For the start of a process: before its first request and `gc.freeze`.

    Processes that have the same `secret` come to the same verdict on every text.
    """
    sampling.use_secret(secret)
    lexicon()
    detector()


def is_english(text: str, most_samples: int = SAMPLES) -> bool:
    """Whether one field is English, or has no words that could be anything else (`42`, an id, an emoji).

    Reads all of a text up to WHOLE characters, `most_samples` samples of a longer one.
    """
    if len(text) <= WINDOW:
        passes = _window_passes(clean(text))
    elif len(text) <= WHOLE * most_samples // SAMPLES:
        passes = _windows_pass(windows(text))
    else:
        passes = _samples_pass(text, most_samples)
    VERDICTS[passes] += 1
    return passes


def _window_passes(window: str) -> bool:
    margin, words, _ = judged(window)
    return margin >= SURE or (margin >= 0 and margin + second_opinion(words) >= 0)


def _windows_pass(parts: list[str]) -> bool:
    """The verdict on several windows, asking cld3 only until no answer could change it."""
    failing = total = 0.0
    undecided: list[tuple[float, list[str]]] = []
    left = sum(map(len, parts))
    for window in parts:
        margin, words, foreign = judged(window)
        size = size_of(words)
        total += size + foreign
        failing += foreign
        if margin < 0:
            failing += size
        elif margin < SURE:
            undecided.append((margin, words))
        left -= len(window)
        if failing > FOREIGN_WINDOWS_SHARE * (total + left):
            return False  # no window counts for more words than it has characters
    limit = FOREIGN_WINDOWS_SHARE * total
    open_ = sum(size_of(words) for _, words in undecided)
    for margin, words in undecided:
        if failing >= limit or failing + open_ < limit:
            break
        open_ -= size_of(words)
        if margin + second_opinion(words) < 0:
            failing += size_of(words)
    return failing < limit or total == 0


def _samples_pass(text: str, count: int) -> bool:
    """The verdict on a long text: whether hardly any of its samples are foreign."""
    excerpt = excerpt_of(text, count)
    if share_of_others(excerpt) > OTHER_SCRIPTS_SHARE:
        return False
    foreign = total = 0
    for sample in samples_of(text, excerpt, count):
        verdict = is_foreign(sample)
        total += verdict is not None
        foreign += verdict is True
        if foreign >= max(FEWEST_FOREIGN, FOREIGN_SAMPLES_SHARE * count):
            return False
    return foreign < max(FEWEST_FOREIGN, FOREIGN_SAMPLES_SHARE * total)
