"""`python -m bench.gate`: error rates by bucket, from labelled texts."""

import gzip
import json
from pathlib import Path

import pytest

from bench import gate


def test_it_counts_rejected_english_and_accepted_others_by_bucket(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = [
        {"text": "hello there", "english": True, "bucket": "short"},
        {"text": "bonjour", "english": True, "bucket": "short"},
        {"text": "hola", "english": False, "bucket": "short"},
        {"text": '{"message": "all is well"}', "english": False, "bucket": "json", "source": "own"},
    ]
    file = tmp_path / "samples.jsonl.gz"
    file.write_bytes(gzip.compress("\n".join(map(json.dumps, samples)).encode()))
    gate.main([str(file), "--errors"])
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines() if line}
    assert rows["short"][1:7] == ["1/2", "50.00", "%", "0/1", "0.00", "%"]
    assert rows["json"][1:5] == ["-", "1/1", "100.00", "%"]
    assert rows["FR"][1:] == ["short:", "'bonjour'"]
