"""Addresses and tokens that begin with `-` are not taken for options of the command."""

import pytest
from tests.support.servers import free_port

from relay_client.command import UNREACHABLE, main, parser
from relay_client.command.dashed import parsed

ADDRESS = "-" + "a" * 26
OF_KEY = "--" + "b-_" * 13 + "bb"
TOKEN = f"{ADDRESS}.0123456789abcdef.{'c' * 32}"


@pytest.mark.parametrize("address", [ADDRESS, OF_KEY])
@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["send", "Hello", "--to", "{}"], "to"),
        (["send", "--to={}", "Hello"], "to"),
        (["ask", "{}", "Hello", "--wait", "5"], "to"),
        (["ask", "--json", "{}", "Hello"], "to"),
        (["ask", "--wait", "5", "--json", "--", "{}", "Hello"], "to"),
        (["ask", "someone", "{}"], "text"),
        (["inbox", "watch", "{}", "--keep"], "address"),
        (["inbox", "watch", "--keep", "{}", "--token", TOKEN], "address"),
        (["inbox", "close", "{}"], "address"),
        (["ask", "someone", "Hello", "--reply-to", "{}"], "reply_to"),
    ],
)
def test_an_address_is_no_option(address: str, words: list[str], name: str) -> None:
    given = parsed(parser(), [word.format(address) for word in words])
    assert getattr(given, name) == address


def test_a_token_is_no_option() -> None:
    assert parsed(parser(), ["inbox", "watch", ADDRESS, "--token", TOKEN]).token == TOKEN
    opened = parsed(parser(), ["inbox", "open", "--contact", OF_KEY, "--contact", ADDRESS, "--token", TOKEN])
    assert (opened.contact, opened.token) == ([OF_KEY, ADDRESS], TOKEN)


@pytest.mark.parametrize("words", [["send", "-x"], ["ask", ADDRESS, "Hello", "--no-such-option"], ["send", "--to"]])
def test_wrong_options_are_still_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(parser(), words)


def test_the_command_takes_such_addresses() -> None:
    """The command accepts them, and fails only because the node is not there."""
    node = f"http://127.0.0.1:{free_port()}"
    assert main(["ask", ADDRESS, "Hello", "--reply-to", OF_KEY, "--node", node]) == UNREACHABLE
