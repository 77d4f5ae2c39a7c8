"""Packages that others bring and the node has no use for."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import cast


@contextmanager
def as_if_not_installed(package: str) -> Generator[None]:
    """Imports of a package fail in the block, so that a library which would use it goes on without it.

    That saves its memory and the time to load it. One that is loaded already stays so.
    """
    modules = cast("dict[str, object]", sys.modules)
    if package in modules:
        yield
        return
    modules[package] = None  # makes Python raise ImportError
    try:
        yield
    finally:
        del modules[package]
