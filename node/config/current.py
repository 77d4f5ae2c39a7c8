"""The settings in force in a process: those of its start, until it is told to read them anew."""

from collections.abc import Callable
from typing import TypeVar

from node.config.settings import Settings

T = TypeVar("T")


class CurrentSettings:
    """The settings in force, for documents and the like, which are made when they are first asked for."""

    def __init__(self, settings: Settings) -> None:
        self.now = settings

    def derived(self, make: Callable[[Settings], T]) -> Callable[[], T]:
        """A function that returns what `make` makes of the settings in force: made once, and again when they change."""
        made: tuple[Settings, T] | None = None

        def get() -> T:
            nonlocal made
            if made is None or made[0] is not self.now:
                made = self.now, make(self.now)
            return made[1]

        return get
