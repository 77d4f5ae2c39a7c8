"""Everything that is wrong with the texts of a request: its sender should not learn it one error at a time."""

from collections.abc import Callable

from node.common.refusal import Invalid, Issue, Refused
from node.text.english import is_english
from node.text.lines import require_name, require_text, require_title
from node.text.readable import readable

JUDGED = "judged"
"""Key in the `extra` of a field's msgspec.Meta. Its value, a word of JUDGEMENTS, says how a service judges the text."""

JUDGEMENTS: dict[str, tuple[Callable[[str, str], None], ...]] = {
    "name": (require_text, require_name),
    "author": (require_name,),
    "title": (require_text, require_title),
    "text": (require_text,),
    "prose": (),
}
"""The requirements of a text, by word. Titles, texts and prose have to be English, too."""

ENGLISH = ("title", "text", "prose")


def require_all(*checks: Callable[[], None], **texts: str) -> None:
    """Run all checks, and require that all texts are English.

    Raises Invalid with the first thing that is wrong with each text, or Refused `language.not_english` if nothing else
    is wrong.
    """
    issues: dict[tuple[str | int, ...], Issue] = {}
    for check in checks:
        try:
            check()
        except Invalid as invalid:
            for issue in invalid.issues:
                issues.setdefault(issue.loc, issue)
    wrong = {loc[1] for loc in issues}
    foreign = [field for field, text in texts.items() if field not in wrong and not is_english(text)]
    if issues:
        raise Invalid([*issues.values(), *map(_foreign, foreign)])
    if foreign:
        raise Refused("language.not_english", field=" is not, ".join(foreign))


def faults_of(judged: str, field: str, text: str) -> list[Issue]:
    """The first thing that is wrong with a text that a service has yet to judge; empty if nothing is."""
    for check in JUDGEMENTS[judged]:
        try:
            check(field, text)
        except Invalid as invalid:
            return list(invalid.issues)
    return [_foreign(field)] if judged in ENGLISH and not is_english(readable(text)) else []


def _foreign(field: str) -> Issue:
    return Issue(("body", field), "must be plain English (en-US)", "language.not_english")
