"""Handles addresses and tokens that begin with `-`, which argparse would take for options.

One in 64 addresses derived from a key begins with `-`.
"""

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from typing import Any, cast

DASHED = re.compile(r"-[A-Za-z0-9_-]{26}(?:[A-Za-z0-9_-]{16})?(?:\.[A-Za-z0-9_.-]+)?")
"""An address (27 or 43 characters of base64url), or the token of an inbox, which begins with its address. No option is
as long as that.
"""
GUARD = " "
"""Prefix for such a word, because argparse recognises an option by its first character."""


def parsed(made: ArgumentParser, words: Sequence[str]) -> Namespace:
    """Return what `parse_args` returns, but take such words for values."""
    given = made.parse_args(guarded(words, set(_flags(made))))
    for name, value in vars(given).items():
        if isinstance(value, str) and DASHED.fullmatch(value.removeprefix(GUARD)):
            setattr(given, name, value.removeprefix(GUARD))
    return given


def guarded(words: Sequence[str], flags: set[str]) -> list[str]:
    """Join each such word to the option whose value it is (`--to=-x`), or else put GUARD in front of it.

    `flags`: the options that have no value.
    """
    done: list[str] = []
    for position, word in enumerate(words):
        if word == "--":  # no options follow
            return [*done, *words[position:]]
        if not DASHED.fullmatch(word):
            done.append(word)
        elif done and done[-1].startswith("--") and "=" not in done[-1] and done[-1] not in flags:
            done[-1] += f"={word}"
        else:
            done.append(GUARD + word)
    return done


def _flags(made: ArgumentParser) -> Iterator[str]:
    """Yield the options without a value, of the command and of all its subcommands."""
    for action in made._actions:  # pyright: ignore[reportPrivateUsage]  # argparse has no other way to ask
        if action.nargs == 0:
            yield from action.option_strings
        choices: Any = action.choices
        if isinstance(choices, dict):  # subcommands
            for one in cast("dict[str, ArgumentParser]", choices).values():
                yield from _flags(one)
