"""The default model as published, loaded once and without a network."""

import socket
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

import pytest

from node.embedding.exported import ExportedModel
from node.embedding.original import OriginalModel, load_original
from tests.support.models import exported_model


@pytest.fixture(scope="session")
def original() -> OriginalModel:
    """The original model. Loading it must not use the network."""

    def no_network(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("the model's loader looked for a network")

    with patch.object(socket, "getaddrinfo", no_network), patch.object(socket.socket, "connect", no_network):
        return load_original("")


@pytest.fixture(scope="session")
def exported() -> ExportedModel:
    """The exported model, which a node runs."""
    return ExportedModel(Path(exported_model()))
