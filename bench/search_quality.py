"""Measures the quality of board search: `python -m bench.search_quality [--items 3000]`.

It answers four questions. Does the threshold of 0.7 separate what answers a query from what does not, on the
labelled set of tests/search? Is known-item search (a docstring's summary is the query for its body) as good as
an exact ranking by the same model? Does one ranking serve both paraphrases and identifiers better than meaning
or text alone? How well are threads without vectors found, and the threads beside them? Prints Markdown and draws
results/threshold.png.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Callable, Container, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.search_data import Known, known_items, vectors
from node.embedding.choice import load
from node.embedding.model import Model
from node.search.corpus import OWN, PostRef
from node.search.engines.memory import MemoryIndex
from node.search.passages import of_own
from node.search.ranking import RankedEntity
from node.text.readable import first_sentence
from node.text.terms import terms_of
from tests.agents.labelled import directory_of
from tests.agents.labelled import mean_reciprocal_rank as skill_rank
from tests.agents.relevance import DISTANT, PLAIN
from tests.agents.relevance import EXACT as SKILL_NAMES
from tests.search.labelled import Library, mean_reciprocal_rank
from tests.search.relevance import EXACT, NOTHING, PARAPHRASES, QUESTIONS, THREADS, Query
from tests.support.models import MODELS, exported_model

PICTURE = Path(__file__).parent / "results" / "threshold.png"
THRESHOLD = 0.7
DEEP = 10
BARE_STEP = 10
IDENTIFIER = re.compile(r"\b[A-Za-z]+_[A-Za-z0-9_]+\b")

Mean = Callable[[Sequence[tuple[Sequence[RankedEntity], Query]]], float]
"""Computes the mean reciprocal rank of the wanted entities among the first ten results."""


class Text(NamedTuple):
    name: str
    title: str
    body: str


def library_of(model: Model, texts: Sequence[Text], most: int, bare: Container[str] = ()) -> Library:
    """Return an index of threads; those named in `bare` have no vectors. Vectors are cached between runs."""
    cut = [of_own(text.title, text.body) for text in texts]
    made = iter(vectors(model, [passage.text for passages in cut for passage in passages]))
    library = Library(model, most, MemoryIndex())
    for text, passages in zip(texts, cut, strict=True):
        held = {passage.name: next(made).tobytes() for passage in passages}
        library.put(PostRef(text.name, OWN), f"{text.title}\n{text.body}", {} if text.name in bare else held)
    return library


def line(name: str, library: Library, queries: Sequence[Query], mean: Mean = mean_reciprocal_rank) -> str:
    """Return a table row of MRR@10: by text, by meaning, as the node ranks, and the same with the default threshold."""
    rankings = (library.by_text, library.by_meaning, library.ask, partial(library.ask, threshold=THRESHOLD))
    figures = [mean([(ranking(query.text), query) for query in queries]) for ranking in rankings]
    return f"| {name} | {len(queries)} | " + " | ".join(f"{figure:.3f}" for figure in figures) + " |"


def labelled(model: Model) -> tuple[Library, str]:
    """Return an index of the labelled set, and a table of its scores and of the pairs that reach the threshold."""
    library = library_of(model, [Text(key, *thread) for key, thread in THREADS.items()], len(THREADS))
    groups: dict[str, list[float]] = {}
    for name, queries in (("question", QUESTIONS), ("paraphrase", PARAPHRASES), ("nothing", NOTHING)):
        for query in queries:
            for match in library.by_meaning(query.text):
                groups.setdefault(name if match.entity_id == query.wanted else "unrelated", []).append(match.score)
    draw(groups)
    rows = [
        f"| {name} | {len(scores)} | {np.quantile(scores, 0.01):.3f} | {np.median(scores):.3f} "
        f"| {np.quantile(scores, 0.99):.3f} | {np.mean(np.array(scores) >= THRESHOLD):.1%} |"
        for name, scores in groups.items()
    ]
    head = f"| pairs | number | 1st percentile | median | 99th | at least {THRESHOLD} |\n|---|---|---|---|---|---|\n"
    return library, head + "\n".join(rows)


def draw(groups: dict[str, list[float]]) -> None:
    """Draw the distribution of the scores by meaning, and the threshold."""
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
    """Return up to `most` queries, each an identifier that occurs in only one body."""
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
    library = library_of(model, texts, DEEP)
    summaries = [Query(item.query, str(number)) for number, item in enumerate(items)]
    names = identifiers(items, len(items) // 10)
    mixed = names + random.Random(2).sample(summaries, len(names))
    both = [Query(f"{query.text} {items[int(query.wanted)].query}", query.wanted) for query in names]
    print("## MRR@10\n\n| queries | number | text | meaning | ours | ours, threshold 0.7 |\n|---|---|---|---|---|---|")
    directory = directory_of(model)
    for name, wishes in (("plain", PLAIN), ("in other words", DISTANT), ("names and codes", SKILL_NAMES)):
        print(line(f"labelled: skills of agents, {name}", directory, wishes, skill_rank))
    print(line("labelled: paraphrases", board, PARAPHRASES))
    print(line("labelled: names and codes", board, EXACT))
    print(line("labelled: both kinds", board, [*PARAPHRASES, *EXACT]))
    print(line(f"known items: summaries, {len(items)} documents", library, summaries))
    print(line("known items: an identifier", library, names))
    print(line("known items: half summaries, half identifiers", library, mixed))
    print(line("known items: identifier and summary in one query", library, both))
    bare = {str(number) for number in range(0, len(items), BARE_STEP)}
    lacking = library_of(model, texts, DEEP, bare)
    for kind, queries in (("summaries", summaries), ("an identifier", names)):
        for those, wanted in (("those", True), ("the others", False)):
            name = f"known items, one in {BARE_STEP} without vectors: {kind}, of {those}"
            print(line(name, lacking, [query for query in queries if (query.wanted in bare) == wanted]))


if __name__ == "__main__":
    main()
