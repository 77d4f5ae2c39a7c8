"""Which objects of a class are in memory, for tests of what is kept and what is freed."""

import gc
from typing import TypeVar

Kind = TypeVar("Kind")


def living(kind: type[Kind]) -> list[Kind]:
    """Return all objects of `kind` that the garbage collector tracks.

    Types are compared because `isinstance` asks each object for its class, and some objects of libraries that other
    tests loaded emit a warning when asked.
    """
    gc.collect()
    return [each for each in gc.get_objects() if type(each) is kind]
