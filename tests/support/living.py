"""What of a class is in memory, for tests of what is kept and what is let go."""

import gc
from typing import TypeVar

Kind = TypeVar("Kind")


def living(kind: type[Kind]) -> list[Kind]:
    """All objects of `kind` that the collector knows.

    Their types are compared, since `isinstance` asks an object for its class, and some objects of libraries that other
    tests have loaded answer with a warning.
    """
    gc.collect()
    return [each for each in gc.get_objects() if type(each) is kind]
