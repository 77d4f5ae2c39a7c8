"""Scripts that complete the command in a shell, made from the command's parser."""

from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any, cast

SHELLS = ("bash", "zsh", "fish")

BASH = """_relay() {{
  local path="" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$path $word" in
{paths}
    esac
  done
  case "$path" in
{words}
  esac
  [ "${{#COMPREPLY[@]}}" -gt 0 ] || COMPREPLY=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o filenames -F _relay relay
"""
ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def script(made: ArgumentParser, shell: str) -> str:
    """Return the completion script for bash, zsh or fish."""
    words = dict(_words(made, ()))
    if shell == "fish":
        return "".join(_fish(path, choices) for path, choices in words.items())
    paths = "\n".join(f'      "{_joined(path)}") path="{_joined(path)}" ;;' for path in words if path)
    cases = "\n".join(
        f'    "{_joined(path)}") COMPREPLY=($(compgen -W "{" ".join(choices)}" -- "${{COMP_WORDS[COMP_CWORD]}}")) ;;'
        for path, choices in words.items()
    )
    made_bash = BASH.format(paths=paths, words=cases)
    return ZSH + made_bash if shell == "zsh" else made_bash


def _words(made: ArgumentParser, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield the path of every command with the words that may follow it: subcommands, choices and options."""
    found: list[str] = []
    below: list[tuple[str, ArgumentParser]] = []
    for action in made._actions:  # pyright: ignore[reportPrivateUsage]  # argparse has no other way to ask
        choices: Any = action.choices or ()
        if isinstance(choices, dict):  # subcommands
            below += cast("dict[str, ArgumentParser]", choices).items()
        found += [*choices, *action.option_strings]
    yield path, found
    for name, one in below:
        yield from _words(one, (*path, name))


def _joined(path: tuple[str, ...]) -> str:
    return "".join(f" {one}" for one in path)


def _fish(path: tuple[str, ...], choices: list[str]) -> str:
    seen = "".join(f"; and __fish_seen_subcommand_from {one}" for one in path).removeprefix("; and ")
    condition = seen or "__fish_use_subcommand"
    return f"complete -c relay -n '{condition}' -a '{' '.join(choices)}'\n"
