"""Reads numbers as ProtoJSON parsers do: 3, 3.0 and "3" are the same integer, and an enum value may be its number."""

import re
from typing import get_args

from node.a2a.model import State

ALL_STATES = ("TASK_STATE_UNSPECIFIED", *get_args(State))
"""Names of the task states. The index of each is its number in the proto file."""

_INTEGER = re.compile("-?[0-9]{1,10}")


def integer(value: object) -> object:
    """Return `value` as an int if it is an integer in any form that ProtoJSON allows, else unchanged."""
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    # No field allows a value beyond 2**53, and 1e300 as an integer would have 301 digits.
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def state(value: object) -> object:
    """Return the name of the task state with the number `value`; any other `value` unchanged."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(ALL_STATES):
        return ALL_STATES[value]
    return value
