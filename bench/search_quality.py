"""How well board search finds: `python -m bench.search_quality [--items 3000]`.

Three questions. Does the threshold of 0.7 part what answers a query from what does not, on the labelled
set of tests/search? Does known-item search (a docstring's summary asks for its body) come up to an
exact ranking by the same model? Does one ranking serve both paraphrases and identifiers better than
meaning or text alone? Prints Markdown, and draws results/threshold.png.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.search_data import Known, known_items, vectors
from node.embedding.choice import load
from node.embedding.model import Model
from node.search.corpus import OWN, Place
from node.search.engines.memory import MemoryIndex, PostDocument
from node.search.passages import of_own
from node.search.ranking import SearchRequest
from node.text.readable import first_sentence
from node.text.terms import marks_of, terms_of
from tests.agents.labelled import Directory, directory_of, mean_reciprocal_rank
from tests.agents.relevance import DISTANT, PLAIN
from tests.agents.relevance import EXACT as SKILL_NAMES
from tests.search.relevance import EXACT, NOTHING, PARAPHRASES, QUESTIONS, THREADS, Query
from tests.support.models import MODELS, exported_model

PICTURE = Path(__file__).parent / "results" / "threshold.png"
THRESHOLD = 0.7
DEEP = 10
NO_WORDS = "zzzz"
IDENTIFIER = re.compile(r"\b[A-Za-z]+_[A-Za-z0-9_]+\b")

Ranking = Callable[[str], Sequence[str]]


class Text(NamedTuple):
    name: str
    title: str
    body: str


class Corpus:
    """Threads in an index, and the rankings to compare."""

    def __init__(self, model: Model, texts: Sequence[Text]) -> None:
        self._model = model
        self.index = MemoryIndex()
        cut = [of_own(text.title, text.body) for text in texts]
        made = iter(vectors(model, [passage.text for passages in cut for passage in passages]))
        for text, passages in zip(texts, cut, strict=True):
            terms = terms_of(f"{text.title}\n{text.body}")
            held = {passage.name: next(made).tobytes() for passage in passages}
            self.index.put(PostDocument(Place(text.name, OWN), " ".join(terms), marks_of(terms), held))

    def scores(self, query: str, threshold: float = 0.0, most: int = 1000) -> list[tuple[str, float]]:
        """Threads by meaning alone, with their scores."""
        (vector,) = self._model.queries([query])
        found = self.index.find(SearchRequest(NO_WORDS, most, threshold), vector).matches
        return [(match.entity_id, match.score) for match in found]

    def meaning(self, query: str) -> list[str]:
        """The exact ranking by the model: all cosines."""
        return [name for name, _ in self.scores(query, most=DEEP)]

    def text(self, query: str) -> list[str]:
        """BM25."""
        return [match.entity_id for match in self.index.find(SearchRequest(query, DEEP, 0), None).matches]

    def ours(self, query: str, threshold: float = 0.0) -> list[str]:
        """As the node ranks."""
        (vector,) = self._model.queries([query])
        return [match.entity_id for match in self.index.find(SearchRequest(query, DEEP, threshold), vector).matches]

    def default(self, query: str) -> list[str]:
        """As the node ranks, with the default threshold."""
        return self.ours(query, THRESHOLD)


def reciprocal_rank(found: Sequence[str], wanted: str) -> float:
    return 1 / (found.index(wanted) + 1) if wanted in found else 0.0


def mrr(ranking: Ranking, queries: Sequence[Query]) -> float:
    """The mean reciprocal rank among the first ten."""
    return float(np.mean([reciprocal_rank(ranking(query.text)[:DEEP], query.wanted) for query in queries]))


def line(name: str, corpus: Corpus, queries: Sequence[Query]) -> str:
    rankings = (corpus.text, corpus.meaning, corpus.ours, corpus.default)
    figures = [mrr(ranking, queries) for ranking in rankings]
    return f"| {name} | {len(queries)} | " + " | ".join(f"{figure:.3f}" for figure in figures) + " |"


def skill_line(name: str, directory: Directory, queries: Sequence[Query]) -> str:
    """The same for the skills of agents, of which the right one has to be named."""
    rankings = (directory.by_text, directory.by_meaning, directory.ask, partial(directory.ask, threshold=THRESHOLD))
    figures = [mean_reciprocal_rank([(ranking(query.text), query) for query in queries]) for ranking in rankings]
    return f"| {name} | {len(queries)} | " + " | ".join(f"{figure:.3f}" for figure in figures) + " |"


def labelled(model: Model) -> tuple[Corpus, str]:
    """The labelled set: its corpus, and what the threshold does to it."""
    corpus = Corpus(model, [Text(key, *thread) for key, thread in THREADS.items()])
    groups: dict[str, list[float]] = {}
    for name, queries in (("question", QUESTIONS), ("paraphrase", PARAPHRASES), ("nothing", NOTHING)):
        for query in queries:
            for thread, score in corpus.scores(query.text):
                groups.setdefault(name if thread == query.wanted else "unrelated", []).append(score)
    draw(groups)
    rows = [
        f"| {name} | {len(scores)} | {np.quantile(scores, 0.01):.3f} | {np.median(scores):.3f} "
        f"| {np.quantile(scores, 0.99):.3f} | {np.mean(np.array(scores) >= THRESHOLD):.1%} |"
        for name, scores in groups.items()
    ]
    head = f"| pairs | number | 1st percentile | median | 99th | at least {THRESHOLD} |\n|---|---|---|---|---|---|\n"
    return corpus, head + "\n".join(rows)


def draw(groups: dict[str, list[float]]) -> None:
    """The distribution of scores by meaning, and where the threshold cuts it."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

    figure: Any = Figure(figsize=(7, 3.5))
    axes = figure.add_subplot()
    labels = {"question": "answers the question", "paraphrase": "answers a paraphrase without its words"}
    edges = np.arange(0.35, 1.0, 0.0125)
    for name, scores in sorted(groups.items(), reverse=True):
        share = np.full(len(scores), 1 / len(scores))
        axes.hist(scores, bins=edges, weights=share, alpha=0.6, label=f"{labels.get(name, name)} ({len(scores)})")
    axes.axvline(THRESHOLD, color="black", linestyle="--", label="default threshold 0.7")
    axes.set(xlabel="score by meaning, (1 + cosine) / 2", ylabel="share of pairs", title="The labelled set")
    axes.set_ylim(0, 0.22)
    axes.legend(fontsize=8, loc="upper left")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110, bbox_inches="tight", metadata={"Software": None})


def identifiers(items: Sequence[Known], most: int) -> list[Query]:
    """An identifier that only one body has, for each of some bodies."""
    found = [sorted(set(IDENTIFIER.findall(item.body))) for item in items]
    frequency = Counter(terms_of(name)[-1] for names in found for name in names if terms_of(name))
    chosen = random.Random(1)
    queries: list[Query] = []
    for number, names in enumerate(found):
        own = [name for name in names if terms_of(name) and frequency[terms_of(name)[-1]] == 1]
        if own and len(queries) < most:
            queries.append(Query(chosen.choice(own), str(number)))
    return queries


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m bench.search_quality", description=__doc__)
    asked.add_argument("--items", type=int, default=3000, help="documents of the known-item search")
    given = asked.parse_args()
    model = load(exported_model(), MODELS)
    board, table = labelled(model)
    print(f"## Threshold\n\n{table}\n")
    items = known_items(given.items)
    texts = [
        Text(str(number), first_sentence(item.body, 120) or "Untitled", item.body) for number, item in enumerate(items)
    ]
    corpus = Corpus(model, texts)
    summaries = [Query(item.query, str(number)) for number, item in enumerate(items)]
    names = identifiers(items, len(items) // 10)
    mixed = names + random.Random(2).sample(summaries, len(names))
    both = [Query(f"{query.text} {items[int(query.wanted)].query}", query.wanted) for query in names]
    print("## MRR@10\n\n| queries | number | text | meaning | ours | ours, threshold 0.7 |\n|---|---|---|---|---|---|")
    directory = directory_of(model)
    for name, wishes in (("plain", PLAIN), ("in other words", DISTANT), ("names and codes", SKILL_NAMES)):
        print(skill_line(f"labelled: skills of agents, {name}", directory, wishes))
    print(line("labelled: paraphrases", board, PARAPHRASES))
    print(line("labelled: names and codes", board, EXACT))
    print(line("labelled: both kinds", board, [*PARAPHRASES, *EXACT]))
    print(line(f"known items: summaries, {len(items)} documents", corpus, summaries))
    print(line("known items: an identifier", corpus, names))
    print(line("known items: half summaries, half identifiers", corpus, mixed))
    print(line("known items: identifier and summary in one query", corpus, both))


if __name__ == "__main__":
    main()
