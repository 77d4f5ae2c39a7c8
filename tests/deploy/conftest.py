"""Fixtures that several packaging tests share."""

from pathlib import Path

import pytest

from tests.deploy.wheel import build


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built once."""
    return build(tmp_path_factory.mktemp("wheel"))
