"""The metrics on RELAY_ADMIN_PORT, read as Prometheus reads them."""

import http.client
import json
from collections.abc import Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.support.servers import PATIENCE

Labels = frozenset[tuple[str, str]]


class Scrape:
    """One page of metrics."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.values: dict[tuple[str, Labels], float] = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        """Return the value of the sample with exactly these labels; 0 if there is none."""
        return self.values.get((name, frozenset(labels.items())), 0.0)

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of all samples that have at least these labels."""
        return sum(value for (found, has), value in self.values.items() if found == name and labels.items() <= has)

    @property
    def names(self) -> set[str]:
        """The names of the samples; a histogram has three."""
        return {name for name, _ in self.values}

    @property
    def labels(self) -> Mapping[str, set[str]]:
        """The names of the labels, by sample."""
        found: dict[str, set[str]] = {}
        for name, has in self.values:
            found.setdefault(name, set()).update(label for label, _ in has)
        return found


class AdminPort:
    """The admin port of a running node."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str, **headers: str) -> tuple[int, str, bytes]:
        """Return status, media type and body. Raises OSError."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            client.request("GET", path, headers=headers)
            answer = client.getresponse()
            return answer.status, answer.headers["Content-Type"], answer.read()
        finally:
            client.close()

    def scrape(self) -> Scrape:
        status, _, body = self.get("/metrics")
        assert status == 200
        return Scrape(body.decode())

    def verdict(self, path: str) -> tuple[int, dict[str, Any]]:
        status, _, body = self.get(path)
        return status, json.loads(body)

    def answers(self, path: str, status: int) -> bool:
        """Return whether the answer has this status; False while nobody listens."""
        try:
            return self.get(path)[0] == status
        except OSError:
            return False
