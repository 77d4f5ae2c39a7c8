"""Readings as Prometheus reads them: its text format or OpenMetrics, by `prometheus_client`."""

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import cast

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from node.common.counters import BOUNDS
from node.observe.metrics.families import FAMILIES, Family
from node.observe.metrics.snapshots import Reading

Encoder = Callable[[CollectorRegistry], bytes]


class _Page(Collector):
    def __init__(self, readings: Iterable[Reading]) -> None:
        self._readings: dict[str, list[Reading]] = {}
        for reading in readings:
            self._readings.setdefault(reading.family, []).append(reading)

    def collect(self) -> Iterator[Metric]:
        """Every metric, those without a value yet as well: a dashboard finds its name."""
        for name, family in FAMILIES.items():
            yield _metric(family, self._readings.get(name, []))


def exposition(readings: Iterable[Reading], accept: str) -> tuple[str, bytes]:
    """The media type and the page for a client that accepts so."""
    registry = CollectorRegistry()
    registry.register(_Page(readings))
    encoder, media_type = choose_encoder(accept)
    return media_type, cast("Encoder", encoder)(registry)


def _metric(family: Family, readings: Iterable[Reading]) -> Metric:
    match family.kind:
        case "counter":
            counter = CounterMetricFamily(family.name.removesuffix("_total"), family.meaning, labels=family.labels)
            for reading in readings:
                counter.add_metric(reading.labels, reading.value)
            return counter
        case "gauge":
            gauge = GaugeMetricFamily(family.name, family.meaning, labels=family.labels)
            for reading in readings:
                gauge.add_metric(reading.labels, reading.value)
            return gauge
        case "histogram":
            histogram = HistogramMetricFamily(family.name, family.meaning, labels=family.labels)
            bounds = [*map(str, BOUNDS), "+Inf"]
            for reading in readings:
                buckets = list(zip(bounds, accumulate(reading.buckets), strict=True))
                histogram.add_metric(reading.labels, cast("list[tuple[str, float]]", buckets), reading.value)
            return histogram
