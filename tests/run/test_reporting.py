"""The metrics process ends with the process that started it."""

import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from node.config import Settings
from node.run import reporting
from tests.support.servers import until

STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1] + "/begun", "w").close()
time.sleep(30)
open(sys.argv[1] + "/ended by itself", "w").close()
"""


def test_a_metrics_process_that_does_not_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_METRICS_DIR", "")  # set here so that it is restored after the test
    monkeypatch.setattr(reporting, "STOP_SECONDS", 0.1)
    monkeypatch.setattr(reporting, "command", Mock(return_value=[sys.executable, "-c", STUBBORN, str(tmp_path)]))
    with reporting.reporting(Settings(admin_port=1, metrics_dir=str(tmp_path / "metrics")), "web"):
        until((tmp_path / "begun").exists, "the process has begun")
    assert not (tmp_path / "ended by itself").exists()
