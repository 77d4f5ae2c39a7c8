"""Carries out calls: retries, backoff, deadlines, and waiting for limits that are known to be used up."""

import logging
import random
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, TypeVar
from urllib.parse import urljoin, urlsplit

from relay_client.call import Call, Repeat
from relay_client.errors import DeadlineExceeded, InvalidRequest, Refused, Unreachable, UsageError, refusal
from relay_client.steps import TRY_SECONDS, Answer, NoAnswer, Send, Sleep, Steps

T = TypeVar("T")
log = logging.getLogger(__name__)

FIRST_PAUSE = 0.2  # s before the second try; each further pause is twice as long
LONGEST_PAUSE = 5.0  # s between tries, unless the node names a time
ONE_AT_A_TIME = 0.25
"""Seconds between calls after a used-up limit has opened again, until an answer says how many calls are left."""
LIMITS_KEPT = 1000
"""Maximum number of limits that are remembered. Beyond it, all of them are forgotten and learned again."""
LONGEST_WAIT = 86_400.0
"""Maximum `wait`, in seconds. The node has a lower limit; a much longer request timeout would overflow in a socket."""
LARGEST_BODY = 1024 * 1024
"""Maximum bytes of a request body (SPEC 8). A node closes the connection when a larger body comes, so its refusal would
often be lost, and the body would be sent seven times."""
NOT_BETTER_LATER = frozenset({501, 507})
"""The 5xx statuses that are not worth a retry."""


class Signer(Protocol):
    """Adds a signature to a request."""

    @property
    def public(self) -> str: ...
    @property
    def address(self) -> str: ...

    def headers(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> dict[str, str]: ...


@dataclass(frozen=True)
class Patience:
    """How long and how often a call is tried."""

    deadline: float = 90.0
    """Seconds for all tries together, in addition to the call's `wait`. It covers the minute of a limit."""
    tries: int = 7
    """Maximum number of failed tries. A 429 with `Retry-After` does not count. The pauses between seven tries add up to
    at least 5 seconds, and to 8 on average, enough for a node to restart."""

    def __post_init__(self) -> None:
        """Raise UsageError for values that allow no try."""
        if not self.deadline > 0:  # nor NaN
            raise UsageError(f"deadline must be a number of seconds above 0, not {self.deadline}")
        if self.tries < 1:
            raise UsageError(f"tries must be 1 or more, not {self.tries}")


@dataclass(slots=True)
class Limit:
    """What the node last said about a limit."""

    left: int
    opens: float
    """When calls are allowed again if none is left, by the carrier's clock."""


@dataclass
class Carrier:
    """Turns calls into steps, and remembers what the node said about limits."""

    base_url: str
    signer: Signer | None = None
    clock: Callable[[], float] = time.monotonic
    limits: dict[str, Limit] = field(default_factory=dict[str, Limit])

    def carry(self, call: Call[T], patience: Patience) -> Steps[T]:
        """Carry out a call, and return the JSON of its answer. Raises RelayError."""
        answer = yield from self.answer(call, patience)
        return answer.json(may_be_nothing=call.may_be_nothing)

    def answer(self, call: Call[Any], patience: Patience, stream_silence: float = 0) -> Steps[Answer]:
        """Carry out a call, and return its answer. Raises RelayError, also for an answer that is an error.

        With `stream_silence`, the body of the answer is a stream that is given up after that many seconds without a
        byte.
        """
        headers = call.headers
        if call.repeat == "key":
            headers = {**headers, "Idempotency-Key": call.key or secrets.token_urlsafe(24)}
        for name, value in headers.items():
            if not _fits_in_header(value):
                raise UsageError(f"the value for the header {name} is not text that a header can carry")
        if not 0 <= call.wait < LONGEST_WAIT:  # nor NaN
            raise UsageError(f"wait must be a number of seconds from 0 to below {LONGEST_WAIT:g}, not {call.wait}")
        if call.body and len(call.body) > LARGEST_BODY:
            much = f"The body has {len(call.body)} bytes; a node takes at most {LARGEST_BODY}. Store it as an artifact."
            raise InvalidRequest(413, "body.too_large", much, {})
        tries = Tries(self.clock, patience, f"no answer from {self.base_url}", call.wait)
        while True:
            if self.limits:
                yield from self._until_open(call, tries.ends)
            try:
                answer: Answer = yield self._request(call, headers, tries.ends, stream_silence)
            except NoAnswer as lost:
                yield from tries.lost(lost, call.repeat)
                continue
            self._learn(call, answer)
            if answer.status < 300 or (answer.status < 400 and call.leads):
                return answer
            yield from tries.refused(answer, call.repeat)

    def url(self, path: str) -> str:
        """Return the absolute URL for a path of the node, or for a URL that the node gave."""
        return self.base_url + path if path.startswith("/") else urljoin(self.base_url + "/", path)

    def _request(self, call: Call[Any], headers: Mapping[str, str], ends: float, stream_silence: float) -> Send:
        url = self.url(call.path)
        if call.signable and self.signer:  # signed again for each try: a signature is accepted only once
            headers = {**headers, **self.signer.headers(call.method, url, headers, call.body)}
        left = max(ends - self.clock(), 0.001)
        timeout = stream_silence or min(TRY_SECONDS + call.wait, left)
        return Send(call.method, url, headers, call.body, timeout, bool(stream_silence), left)

    def _until_open(self, call: Call[Any], ends: float) -> Steps[None]:
        """Wait as long as the node would answer 429, according to its last answers."""
        while (limit := self.limits.get(call.paced_by)) is not None:
            if limit.left > 0:
                limit.left -= 1
                return
            now = self.clock()
            if limit.opens > ends:
                left = f"{limit.opens - now:.0f} s"
                raise DeadlineExceeded(f"the limit of {call.paced_by} is used up for another {left}")
            if limit.opens <= now:
                limit.opens = now + ONE_AT_A_TIME
                return
            log.info("waiting %.0f s: the limit of %s is used up", limit.opens - now, call.paced_by)
            yield Sleep(limit.opens - now)

    def _learn(self, call: Call[Any], answer: Answer) -> None:
        said = answer.headers.get("ratelimit")
        found = _LEFT.findall(said) if said else ()
        if not found:
            return
        left = min(int(remaining) for remaining, _ in found)
        waits = [float(reset) for remaining, reset in found if remaining == "0"]
        opens = self.clock() + max(waits, default=0.0)
        if len(self.limits) >= LIMITS_KEPT:
            self.limits.clear()
        self.limits[call.paced_by] = Limit(left, opens)


class Tries:
    """The failed tries of a call, and whether another try may follow.

    Call `lost` or `refused` when a try has failed. They pause before the next try, or raise.
    """

    def __init__(self, clock: Callable[[], float], patience: Patience, unanswered: str, wait: float = 0) -> None:
        """`unanswered`: error message for a try without an answer."""
        self._clock = clock
        self._most = patience.tries
        self._unanswered = unanswered
        self.ends = clock() + patience.deadline + wait
        """When it is too late for another try, by `clock`."""
        self.failures = 0
        self.may_have_happened = False
        """Whether one of the failed tries may have taken effect."""

    def lost(self, lost: NoAnswer, repeat: Repeat = "safe") -> Steps[None]:
        """Handle a try without an answer. Raises Unreachable, DeadlineExceeded."""
        self.may_have_happened = self.may_have_happened or not lost.unsent
        self.failures += 1
        if self._clock() >= self.ends:
            raise DeadlineExceeded(f"{self._unanswered}, and the deadline has passed: {lost}") from None
        error = Unreachable(f"{self._unanswered}: {lost}")
        if self.failures >= self._most or (repeat == "unsent" and not lost.unsent):
            raise error from None
        yield from self._pause(0, error)

    def refused(self, answer: Answer, repeat: Repeat = "safe") -> Steps[None]:
        """Handle a try whose answer is an error. Raises Refused."""
        refused = refusal(answer.status, answer.headers, answer.content)
        refused.may_have_happened = self.may_have_happened
        put_off = _retry_after(answer)
        self.failures += not (refused.status == 429 and put_off)
        if self.failures >= self._most or not _is_worth_repeating(repeat, refused):
            raise refused
        self.may_have_happened = self.may_have_happened or _is_unknown(refused)
        yield from self._pause(put_off, refused)

    def _pause(self, least: float, error: Exception) -> Steps[None]:
        """Pause before the next try. Raise `error` if that try would begin after the deadline."""
        backoff = min(FIRST_PAUSE * 2 ** max(self.failures - 1, 0), LONGEST_PAUSE) * random.uniform(0.5, 1)
        seconds = least + backoff  # a random part, so that clients that were put off together come back one by one
        if self._clock() + seconds > self.ends:
            raise error
        log.info("waiting %.1f s before another try: %s", seconds, error)
        yield Sleep(seconds)


_LEFT = re.compile(r";r=(\d{1,9});t=(\d{1,9})")


_PORTS = {"http": ":80", "https": ":443"}


def base_of(url: str) -> str:
    """Return the base URL of a node as it is sent and signed: scheme and host in lower case, without default port.

    Paths are appended to it. Raises UsageError if `url` is not the address of a node.
    """
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in _PORTS and parts.hostname and parts.port != 0
    except ValueError:
        parts, is_right = None, False
    if parts and "@" in parts.netloc:  # the message does not repeat it: there may be a password
        raise UsageError("the URL of a node must not contain a user name: it would be sent in place of tokens")
    if not parts or not is_right or set(url) & set('?# "<>\\') or not url.isprintable():
        raise UsageError(f"the URL of a node must be like https://node.example, not {url!r}")
    place = parts.netloc.lower().removesuffix(_PORTS[parts.scheme]).removesuffix(":")
    return f"{parts.scheme}://{place}{parts.path}".rstrip("/")


def _fits_in_header(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isprintable()


def _is_unknown(error: Refused) -> bool:
    """Whether the write may have happened despite the error."""
    return error.code == "store.unknown" or (error.status >= 500 and not error.code)


def _is_worth_repeating(repeat: Repeat, error: Refused) -> bool:
    if error.status >= 500:
        allowed = error.status not in NOT_BETTER_LATER
        return allowed and (repeat != "unsent" or (error.status == 503 and not _is_unknown(error)))
    return error.status in (408, 429)


def _retry_after(answer: Answer) -> float:
    """Return the seconds until another try is welcome (RFC 9110 §10.2.3).

    A proxy in front of the node may name a time. It is compared with the Date of the answer, given by the same clock.
    """
    said = answer.headers.get("retry-after", "")
    if said.isdecimal():
        return float(said)
    try:
        until, now = parsedate_to_datetime(said), parsedate_to_datetime(answer.headers.get("date", ""))
        return max((until - now).total_seconds(), 0.0)
    except (TypeError, ValueError, OverflowError):  # TypeError: one of the two has no time zone
        return 0.0
