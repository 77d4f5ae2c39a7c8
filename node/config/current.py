"""The settings that are in force in a process: those of its start, until it is told to read them anew."""

from collections.abc import Callable
from typing import TypeVar

from node.config.settings import Settings

T = TypeVar("T")


class CurrentSettings:
    """What documents and others that are asked later read the settings from."""

    def __init__(self, settings: Settings) -> None:
        self.now = settings

    def derived(self, make: Callable[[Settings], T]) -> Callable[[], T]:
        """What `make` makes of the settings in force: when it is first asked for, and again after they have changed."""
        made: tuple[Settings, T] | None = None

        def get() -> T:
            nonlocal made
            if made is None or made[0] is not self.now:
                made = self.now, make(self.now)
            return made[1]

        return get
