"""The embedding model, loaded once and without a network."""

import socket
from typing import Any, NoReturn
from unittest.mock import patch

import pytest

from node.text.embed import Model, load


@pytest.fixture(scope="session")
def model() -> Model:
    """The bundled model. Loading it must not ask anybody for anything."""

    def no_network(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("the model's loader looked for a network")

    with patch.object(socket, "getaddrinfo", no_network), patch.object(socket.socket, "connect", no_network):
        return load("")
