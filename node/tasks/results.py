"""Results of contracts as JSON that is kept byte for byte."""

import orjson

from node.common.canonical_json import canonical
from node.common.refusal import Invalid


def is_same_result(result: bytes, other: bytes) -> bool:
    """Return whether two results are the same JSON, apart from whitespace and the order of members."""
    return result == other or canonical(result, orjson.loads(result)) == canonical(other, orjson.loads(other))


def require_result(result: bytes) -> None:
    """Raise Invalid for a number out of range or a lone surrogate, which the body decoder does not check."""
    try:
        orjson.loads(result)
    except orjson.JSONDecodeError as error:
        raise Invalid.field("body", "result_payload", msg=f"is not JSON: {error.msg}", kind="json_invalid") from None
