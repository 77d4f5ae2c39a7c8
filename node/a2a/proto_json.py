"""Numbers as parsers of ProtoJSON take them: 3, 3.0 and "3" are the same integer, and an enum may be its number."""

import re
from typing import get_args

from node.a2a.model import State

ALL_STATES = ("TASK_STATE_UNSPECIFIED", *get_args(State))
"""The states by their numbers in the proto file."""

_INTEGER = re.compile("-?[0-9]{1,10}")


def integer(value: object) -> object:
    """`value`, as an integer if it is one in another form."""
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    # No field has a value beyond 2**53, and 1e300 as an integer has 301 digits.
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def state(value: object) -> object:
    """`value`, as the name of a state if it is the number of one."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(ALL_STATES):
        return ALL_STATES[value]
    return value
