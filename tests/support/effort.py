"""How many cases the randomised tests try: a part by default, all with FAULTS=full (`make faults`, `make fuzz`)."""

import os

from hypothesis import settings

FULL = os.environ.get("FAULTS") == "full"


def tries(examples: int, steps: int = 50) -> settings:
    """Return settings for `examples` examples in a full run and a third of them otherwise. `steps` is the length of a
    state machine's run.
    """
    return settings(max_examples=examples if FULL else examples // 3, stateful_step_count=steps)
