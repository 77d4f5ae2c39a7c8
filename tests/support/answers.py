"""What a node's answer says, for any HTTP client."""

from typing import Any, Protocol

NOT_ENGLISH = (
    "Queries must be submitted in plain English (en-US); put code and other languages in quotation marks. "
    "Not in plain English: "
)
"""Beginning of the refusal of a text in another language (SPEC 7)."""


class Answer(Protocol):
    """An answer, of httpx2 or httpx."""

    @property
    def status_code(self) -> int: ...

    @property
    def headers(self) -> Any: ...

    @property
    def text(self) -> str: ...

    def json(self) -> Any: ...


def json_of(answer: Answer, status: int = 200) -> Any:
    """Return the JSON of an answer, which must have this status."""
    assert answer.status_code == status, answer.text
    return answer.json()


def refused(answer: Answer) -> tuple[int, str]:
    """Return status and error code of a refusal."""
    return answer.status_code, answer.headers["x-error-code"]
