"""Renders readings for Prometheus, in its text format or in OpenMetrics, by `prometheus_client`."""

from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from node.common.counters import BOUNDS
from node.observe.metrics.families import FAMILIES
from node.observe.metrics.snapshots import Reading

BUCKETS = [*map(str, BOUNDS), "+Inf"]
"""Values of the label `le`."""


class _Page(Collector):
    def __init__(self, readings: Iterable[Reading]) -> None:
        self._readings = readings

    def collect(self) -> Iterator[Metric]:
        """Yield every metric, even those without a value yet, so that a dashboard finds their names."""
        metrics = {
            name: Metric(name.removesuffix("_total"), family.meaning, family.kind) for name, family in FAMILIES.items()
        }
        for reading in self._readings:
            metric, name = metrics[reading.family], reading.family
            labels = dict(zip(FAMILIES[name].labels, reading.labels, strict=True))
            if not reading.buckets:
                metric.add_sample(name, labels, reading.value)
                continue
            counts = list(accumulate(reading.buckets))
            for bound, count in zip(BUCKETS, counts, strict=True):
                metric.add_sample(f"{name}_bucket", labels | {"le": bound}, count)
            metric.add_sample(f"{name}_count", labels, counts[-1])
            metric.add_sample(f"{name}_sum", labels, reading.value)
        yield from metrics.values()


def exposition(readings: Iterable[Reading], accept: str) -> tuple[str, bytes]:
    """Return the media type and the page, in the format that a client's Accept header asks for."""
    encoder, media_type = choose_encoder(accept)
    return media_type, encoder(_Page(readings))
