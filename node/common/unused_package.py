"""Hides packages that dependencies install but the node does not use."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import cast


@contextmanager
def as_if_not_installed(package: str) -> Generator[None]:
    """Make imports of a package fail in the block, so that libraries with optional support for it do without.

    Saves memory and the time to load the package. A package that is already loaded stays loaded.
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
