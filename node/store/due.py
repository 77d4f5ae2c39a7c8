"""What becomes due at a time, in each partition: one worker takes it, and another if that one dies."""

from node.store.steps import Key, step


@step
def due_take(*, due: Key, hidden: int, limit: int) -> None:
    """Takes what is due, for one worker alone."""
