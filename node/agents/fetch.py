"""Fetches and judges the agent card of a posted URL (NETWORK 2)."""

import asyncio
from http import HTTPStatus

import msgspec

from node.agents.card import FetchedCard, card_targets, endpoint_of, readable_card
from node.agents.entry import card_fields
from node.agents.findings import CheckResult
from node.callbacks.attempt import Later
from node.callbacks.call import CallAnswer, CallResult
from node.callbacks.fair import FairCaller
from node.callbacks.target import Target, TargetRefused, parse
from node.common.refusal import Invalid, Refused
from node.web.json import decode

CARD_BYTES = 256 * 1024
"""Maximum bytes of a card."""

HEAD_BYTES = 16 * 1024
"""Maximum bytes of the response headers and the framing of the body."""

FETCH_SECONDS = 30.0
"""Timeout of a whole fetch: the wait for a turn, and two requests of ten seconds. So a URL on a host that hangs is
rejected within 40 s of its posting."""

MISSING = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)


class CardFetcher:
    """Fetches cards on behalf of the clients who posted URLs."""

    def __init__(self, calls: FairCaller, public_url: str) -> None:
        self._calls = calls
        self.user_agent = (b"User-Agent", f"relay-node-directory/1.0 (+{public_url}/agents)".encode())
        """Header of all requests of the directory."""
        self._headers = [self.user_agent, (b"Accept", b"application/json"), (b"Accept-Encoding", b"identity")]

    async def fetch(self, given: str, by: str, listed: str = "") -> CheckResult:
        """Fetch and judge the card of the agent at a URL, for a client (`node.callbacks.owners`).

        `listed`: where the card of the existing entry was fetched, if there is one. Only that place can tell that the
        card is gone, because anybody may post the entry by another URL where its card never was, or while its own URL
        answers 500. Raises StoreUnavailable.
        """
        failures: dict[Target, CheckResult] = {}
        try:
            targets = card_targets(parse(given, self._calls.policy))
            known = parse(listed, self._calls.policy) if listed else targets[-1]
            if known not in targets:
                targets.append(known)
            async with asyncio.timeout(FETCH_SECONDS):
                for target in targets:
                    answer = await self.get(target, by, asyncio.get_running_loop().time() + FETCH_SECONDS)
                    found = self.judged(target, answer)
                    if not found.reason or found.is_final:
                        return found
                    failures[target] = found
        except TimeoutError:
            return CheckResult(f"no agent card was fetched within {FETCH_SECONDS:g} s")
        except TargetRefused as refused:
            return CheckResult(str(refused))
        if listed:
            return failures[known]
        # A client that posts a new URL may have meant either place, so it is told what is wrong at both.
        return msgspec.structs.replace(failures[known], reason="; ".join(each.reason for each in failures.values()))

    async def get(self, target: Target, by: str, ends: float) -> CallResult:
        """Call a target if its turn comes by `ends`, a time of the event loop. Raises StoreUnavailable."""
        request = self._calls.caller.request("GET", target, self._headers)
        return await self._calls.call_in_turn(target, request, by, ends, CARD_BYTES + HEAD_BYTES)

    def judged(self, target: Target, answer: CallResult) -> CheckResult:
        """Return the card in an answer, or the reason why there is none that can be listed."""
        body = _body(target, answer)
        if isinstance(body, CheckResult):
            return body
        try:
            card = decode(body, FetchedCard)
            endpoint = endpoint_of(card, target, self._calls.policy)
            kept = readable_card(card)
        except Invalid as invalid:
            return CheckResult(f"{target.url} is not an agent card that can be listed: {_first_issue(invalid)}")
        except Refused:  # by the English gate
            return CheckResult(f"the card at {target.url} is not in plain English", is_final=True)
        return CheckResult(fields=card_fields(kept, target.url, endpoint.url, endpoint.binding, endpoint.version))


def _body(target: Target, result: CallResult) -> bytes | CheckResult:
    """Return the body of an answer that may be a card, or the reason why it cannot be one."""
    match result:
        case CallAnswer() if result.status == HTTPStatus.OK:
            if len(result.body) > CARD_BYTES or not result.is_whole:
                return CheckResult(
                    f"{target.url} did not send its answer within ten seconds, in at most {CARD_BYTES} bytes, "
                    "and in pieces of a usual size"
                )
            return result.body
        case CallAnswer() if 300 <= result.status < 400:
            return CheckResult(f"{target.url} answered {result.status}; redirects are not followed")
        case CallAnswer():
            return CheckResult(f"{target.url} answered {result.status}", is_gone=result.status in MISSING)
        case Later():
            seconds = -(-result.wait_ms // 1000)
            return CheckResult(
                f"{target.host} is called too often at present; post the URL again in {seconds} s", is_final=True
            )
        case _:
            return CheckResult(f"{target.url}: {result.reason}", is_final=True)


def _first_issue(invalid: Invalid) -> str:
    """Return the first issue, with its path."""
    issue = invalid.issues[0]
    path = ".".join(str(each) for each in issue.loc[1:])
    return f"{path}: {issue.msg}" if path else issue.msg
