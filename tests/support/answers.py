"""What an answer of a node says, whoever asked."""

from typing import Any, Protocol

NOT_ENGLISH = "Queries must be submitted in plain English (en-US), code and other languages in quotation marks; "
"""How the refusal of a text in another language begins (SPEC 7)."""


class Answer(Protocol):
    """An answer, as httpx2 and httpx give it."""

    @property
    def status_code(self) -> int: ...

    @property
    def headers(self) -> Any: ...

    @property
    def text(self) -> str: ...

    def json(self) -> Any: ...


def json_of(answer: Answer, status: int = 200) -> Any:
    """The JSON of an answer that must have this status."""
    assert answer.status_code == status, answer.text
    return answer.json()


def refused(answer: Answer) -> tuple[int, str]:
    """Status and code of a refusal."""
    return answer.status_code, answer.headers["x-error-code"]
