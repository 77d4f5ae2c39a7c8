"""The program `relay`, also as `python -m relay_command`.

It is apart from the package, so that Ctrl-C leaves no traceback while that is being imported. With
`python -m relay_client` it does.
"""

import sys


def main() -> int:
    """Run the command; returns its exit code."""
    try:
        from relay_client.command import main as command  # noqa: PLC0415  # see above

        return command()
    except KeyboardInterrupt:
        return 130  # as shells report SIGINT


if __name__ == "__main__":
    sys.exit(main())
