"""How much the tests that try many cases try: a part by default, all with FAULTS=full (`make faults`, `make fuzz`)."""

import os

from hypothesis import settings

FULL = os.environ.get("FAULTS") == "full"


def tries(examples: int, steps: int = 50) -> settings:
    """That many examples in full, a third of them otherwise; those of a state machine of so many steps each."""
    return settings(max_examples=examples if FULL else examples // 3, stateful_step_count=steps)
