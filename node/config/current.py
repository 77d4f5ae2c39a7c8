"""The settings in force in a process: those from its start or, later, from its last reload."""

from collections.abc import Callable
from typing import TypeVar

from node.config.settings import Settings

T = TypeVar("T")


class CurrentSettings:
    """The settings in force, and values derived from them on first use, such as documents."""

    def __init__(self, settings: Settings) -> None:
        self.now = settings

    def derived(self, make: Callable[[Settings], T]) -> Callable[[], T]:
        """Return a function that returns `make(settings)` for the settings in force, cached until they change."""
        made: tuple[Settings, T] | None = None

        def get() -> T:
            nonlocal made
            if made is None or made[0] is not self.now:
                made = self.now, make(self.now)
            return made[1]

        return get
