"""Defines a scenario: a name, a sentence about it, and the function to run."""

from collections.abc import Awaitable, Callable

import msgspec

from bench.lab import Lab


class Scenario(msgspec.Struct, frozen=True):
    """One file of scenarios/."""

    name: str
    about: str
    run: Callable[[Lab], Awaitable[None]]
    full_only: bool = False  # takes too long for `all`: run by name, or by `all --full`
