"""docs/production.md is true: its names, its files, and its table of partitions."""

import json
import re
from collections import Counter

from node.artifacts.blobs.bucket import Bucket
from node.artifacts.store import COMPLETION_MS, VERIFICATION_MS
from node.config import Settings
from node.store import ids, keys
from node.store.limits import DAY_MS
from node.store.slots import slot_of
from tests.support.nodes import ROOT

PAGE = ROOT / "docs" / "production.md"
TEXT = PAGE.read_text()
SLOTS = 16384


def test_the_table_of_partitions_is_what_an_even_split_of_slots_gives() -> None:
    rows = {
        row[0]: [int(cell) for cell in row[1:]]
        for row in (re.split(r" *\| *", line.strip("| ")) for line in TEXT.splitlines() if line.startswith("| "))
        if row[0] in ("Primaries", "partitions on the fullest", "on the emptiest")
    }
    slots = [slot_of(keys.events(partition)) for partition in range(ids.PARTITIONS)]
    assert len(set(slots)) == ids.PARTITIONS
    for primaries, fullest, emptiest in zip(*rows.values(), strict=True):
        counts = Counter(slot * primaries // SLOTS for slot in slots)
        held = [counts[primary] for primary in range(primaries)]
        assert (max(held), min(held)) == (fullest, emptiest), primaries


def test_the_bucket_s_rule_removes_nothing_that_is_alive() -> None:
    """An artifact may be completed late, verified late, and is then kept for its lifetime. S3 counts days from the
    upload.
    """
    (example,) = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    (rule,) = json.loads(example)["Rules"]
    longest = COMPLETION_MS + VERIFICATION_MS + Settings().artifact_ttl * 1000
    assert longest < rule["Expiration"]["Days"] * DAY_MS <= longest + DAY_MS
    (url,) = re.findall(r"`RELAY_BLOB_URL=(s3://bucket/artifacts)`", TEXT)
    assert rule["Filter"] == {"Prefix": Bucket.parse(url, "eu-central-1", "").prefix}
