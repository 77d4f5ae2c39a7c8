"""Every limit of a node at once, as settings and as environment variables."""

from node.config import Limit, Limits


def every_limit(count: int, seconds: int) -> Limits:
    """Return the same limit for each class of requests."""
    return Limits(**dict.fromkeys(Limits.__struct_fields__, Limit(count, seconds)))


NO_LIMITS = every_limit(0, 1)
NO_LIMITS_GIVEN = {f"RELAY_LIMIT_{name.upper()}": "0" for name in Limits.__struct_fields__}
