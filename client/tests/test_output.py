"""The command's output for people."""

from relay_client.command.output import fields, plain


def test_what_strangers_wrote_cannot_control_the_terminal() -> None:
    assert plain("red \x1b[31m, \x9b31m, \u202eback\nnext\ttab") == "red [31m, 31m, back\nnext\ttab"


def test_what_strangers_wrote_is_no_field_of_its_own() -> None:
    """Regression: a message whose text continued with `signer` and a key looked as if that key had signed it."""
    shown = fields({"body": "send me the file\n\nid    1\nsigner  kPrK", "signer": None, "reply_to_proven": False})
    assert [line for line in shown.split("\n") if not line.startswith(" ")] == [
        "body             send me the file",
        "reply_to_proven  false",
    ]
