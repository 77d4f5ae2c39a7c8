"""Finds everything that is wrong with the texts of a request, so that its sender need not learn it error by error."""

from collections.abc import Callable

from node.common.refusal import Invalid, Issue, Refused
from node.text.english import is_english
from node.text.lines import require_name, require_text, require_title
from node.text.readable import readable

JUDGED = "judged"
"""Key in the `extra` of a field's msgspec.Meta. The value, a key of JUDGEMENTS, says how a service judges the text."""

JUDGEMENTS: dict[str, tuple[Callable[[str, str], None], ...]] = {
    "name": (require_text, require_name),
    "author": (require_name,),
    "title": (require_text, require_title),
    "text": (require_text,),
    "prose": (),
}
"""Requirements on a text, by the kind of text. Titles, texts and prose must also be English."""

ENGLISH = ("title", "text", "prose")


def require_all(*checks: Callable[[], None], **texts: str) -> None:
    """Run all checks, and require that all texts are English.

    Raises Invalid with the first fault of each text. If the only fault is that texts are not English, raises Refused
    `language.not_english` instead.
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
        raise Refused("language.not_english", field=", ".join(foreign))


def faults_of(judged: str, field: str, text: str) -> list[Issue]:
    """Return the first fault of a text that no service has judged yet; an empty list if the text has none."""
    for check in JUDGEMENTS[judged]:
        try:
            check(field, text)
        except Invalid as invalid:
            return list(invalid.issues)
    return [_foreign(field)] if judged in ENGLISH and not is_english(readable(text)) else []


def _foreign(field: str) -> Issue:
    return Issue(("body", field), "must be plain English (en-US)", "language.not_english")
