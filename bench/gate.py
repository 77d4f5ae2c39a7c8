"""Measures the accuracy and speed of the English gate on labelled texts.

    python -m bench.gate <file.jsonl[.gz]> …

Each line of a file is an object with `text`, `english` (true or false) and `bucket`. Every text is judged as a
text/plain payload, so a text that is a JSON document is judged by its prose. Prints for each file and bucket: FR, the
share of English texts rejected; FA, the share of other texts accepted; and the thread CPU time per verdict, in µs.
`--errors` lists the misjudged texts.
"""

import argparse
import gzip
import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from node.text.english import preload
from node.text.payload import text_payload_is_english

SECRET = "the same samples in every run"


class Sample(msgspec.Struct):
    """One labelled text."""

    text: str
    english: bool
    bucket: str


class Counts:
    """The verdicts on the texts of one bucket, and the CPU time of each in nanoseconds."""

    def __init__(self) -> None:
        self.english = self.rejected = self.others = self.accepted = 0
        self.nanoseconds: list[int] = []

    def add(self, sample: Sample, verdict: bool, nanoseconds: int) -> None:
        self.nanoseconds.append(nanoseconds)
        if sample.english:
            self.english += 1
            self.rejected += not verdict
        else:
            self.others += 1
            self.accepted += verdict

    def row(self, name: str) -> str:
        times = sorted(self.nanoseconds)
        median, p99, most = (times[int(share * (len(times) - 1))] / 1000 for share in (0.5, 0.99, 1.0))
        return (
            f"{name:<18}{_share(self.rejected, self.english)}{_share(self.accepted, self.others)}"
            f"{median:>10.1f}{p99:>10.1f}{most:>10.1f}"
        )


def _share(part: int, whole: int) -> str:
    return f"{part:>6}/{whole:<5} {100 * part / whole:>6.2f} %" if whole else f"{'-':>21}"


def read(path: Path) -> Iterator[Sample]:
    """Yield the samples of one file, which is decompressed if its name ends in .gz. Lone surrogates, which JSON can
    express as escapes, are kept."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            yield msgspec.convert(json.loads(line), Sample)


def measure(samples: Iterable[Sample], *, errors: bool) -> dict[str, Counts]:
    """Judge every sample once. Return the counts of each bucket, and those of all samples under `all`."""
    counts: dict[str, Counts] = {}
    for sample in samples:
        started = time.thread_time_ns()
        verdict = text_payload_is_english(sample.text)
        spent = time.thread_time_ns() - started
        for bucket in (sample.bucket, "all"):
            counts.setdefault(bucket, Counts()).add(sample, verdict, spent)
        if errors and verdict != sample.english:
            print(f"{'FR' if sample.english else 'FA'} {sample.bucket}: {sample.text[:300]!r}")
    return counts


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench.gate", description="Measure the English gate on labelled texts.")
    parser.add_argument("files", nargs="+", type=Path, help="JSON lines of {text, english, bucket}, gzipped or not")
    parser.add_argument("--errors", action="store_true", help="list the misjudged texts")
    options = parser.parse_args(arguments)
    preload(SECRET)
    for path in options.files:
        counts = measure(read(path), errors=options.errors)
        print(f"\n{path.name}\n{'bucket':<18}{'FR':>21}{'FA':>21}{'median':>10}{'p99':>10}{'max µs':>10}")
        for name in sorted(counts, key=lambda name: (name == "all", name)):
            print(counts[name].row(name))


if __name__ == "__main__":
    main(sys.argv[1:])
