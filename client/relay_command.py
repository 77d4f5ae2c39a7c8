"""The program `relay`, also as `python -m relay_command`.

It is outside the package, so that Ctrl-C leaves no traceback while the package is being imported. With
`python -m relay_client`, Ctrl-C does leave one.
"""

import sys


def main() -> int:
    """Run the command, and return its exit code."""
    try:
        from relay_client.command import main as command  # noqa: PLC0415  # see above

        return command()
    except KeyboardInterrupt:
        return 130  # as shells report SIGINT


if __name__ == "__main__":
    sys.exit(main())
