"""Retries, pauses and deadlines: the steps of a call, without a network."""

import json
import math
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

import pytest

from relay_client.board import Board
from relay_client.call import Call, Repeat
from relay_client.carrier import FIRST_PAUSE, LARGEST_BODY, Carrier, Limit, Patience
from relay_client.errors import (
    Conflict,
    DeadlineExceeded,
    InvalidRequest,
    Limited,
    NotAllowed,
    NotFound,
    Refused,
    Unavailable,
    Unreachable,
    UsageError,
    refusal,
)
from relay_client.messages import Messages
from relay_client.steps import TRY_SECONDS, Answer, NoAnswer, Send, Sleep
from relay_client.tasks import Tasks

LIMITED = Answer(429, {"x-error-code": "limit.exceeded", "retry-after": "7"}, b'{"error": "Wait."}')
BUSY = Answer(503, {"x-error-code": "store.busy", "retry-after": "1"}, b'{"error": "Wait."}')
UNKNOWN = Answer(503, {"x-error-code": "store.unknown"}, b'{"error": "Repeat."}')
CONFLICT = Answer(409, {"x-error-code": "task.state"}, b'{"error": "It is over."}')
SECOND_LAST = Answer(200, {"ratelimit": '"relay";r=1;t=60'}, b"{}")
LAST = Answer(200, {"ratelimit": '"relay";r=0;t=42'}, b"{}")
PATIENCE = Patience()


def carrier(now: float = 0.0) -> Carrier:
    return Carrier("http://127.0.0.1", clock=lambda: now)


def test_all_tries_of_a_call_carry_one_key_and_another_call_carries_another() -> None:
    keys: list[str] = []
    for _ in range(2):
        steps = carrier().carry(Messages.send.call("Hello"), PATIENCE)
        first = next(steps)
        pause = steps.send(LIMITED)
        second = next(steps)
        assert isinstance(first, Send)
        assert isinstance(second, Send)
        assert isinstance(pause, Sleep)
        assert 7 < pause.seconds < 8, "those put off together come back one by one"
        assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
        keys.append(first.headers["Idempotency-Key"])
    assert keys[0] != keys[1]


@pytest.mark.parametrize("call", [Tasks.reject.call("1", "Too short.", "token"), Tasks.retry.call("1", "token")])
def test_a_judgement_whose_answer_was_lost_is_repeated_with_its_key(call: Call[Any]) -> None:
    steps = carrier().carry(call, PATIENCE)
    first = next(steps)
    assert isinstance(steps.throw(NoAnswer("reset", unsent=False)), Sleep)
    second = next(steps)
    assert isinstance(first, Send)
    assert isinstance(second, Send)
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]


def test_a_try_that_the_node_puts_off_does_not_count() -> None:
    steps = carrier().carry(Messages.send.call("Hello"), Patience(tries=2))
    assert isinstance(next(steps), Send)
    for _ in range(5):
        assert isinstance(steps.send(LIMITED), Sleep)
        assert isinstance(next(steps), Send)
    assert isinstance(steps.send(Answer(429, {}, b"{}")), Sleep), "one that names no time counts"
    assert isinstance(next(steps), Send)
    with pytest.raises(Limited):
        steps.send(Answer(429, {}, b"{}"))


def test_what_is_not_given_is_not_sent_and_a_token_stands_for_a_signature() -> None:
    assert Messages.send.call("Hello").body == b'{"message":"Hello"}'
    assert Messages.send.call("Hello", public=False).body == b'{"message":"Hello","public":false}'
    for call in (Call.get("x", signable=True), Call.post("x", signable=True), Call.delete("x", signable=True)):
        assert call.signable
    for call in (Call.get("x", token="t", signable=True), Call.post("x", token="t", signable=True)):
        assert (call.signable, call.headers["Authorization"]) == (False, "Bearer t")


def test_an_object_is_relayed_as_it_is_and_parameters_win_over_its_fields() -> None:
    private = {"message": "Hello", "public": False, "callback_url": "https://agent.example/", "result": None}
    body = Messages.send.call(private).body
    assert body is not None
    assert json.loads(body) == private
    body = Messages.send.call(private, public=True).body
    assert body is not None
    assert json.loads(body) == private | {"public": True}


def test_a_deadline_may_be_a_moment() -> None:
    body = Tasks.offer.call("desk", "Count the apples", deadline=datetime(2026, 1, 1, 12, tzinfo=timezone.utc)).body
    assert body is not None
    assert json.loads(body)["deadline"] == "2026-01-01T12:00:00+00:00"


def test_an_id_is_one_segment_of_a_path_whatever_it_holds() -> None:
    assert Tasks.cancel.call("a/b?c#d", "token").path == "/api/v1/tasks/a%2Fb%3Fc%23d/cancel"


def test_a_try_takes_no_longer_than_there_is_time() -> None:
    for wait, deadline, timeout in ((0, 90, TRY_SECONDS), (20, 90, TRY_SECONDS + 20), (0, 4, 4)):
        sent = next(carrier().carry(Tasks.get.call("1", wait=wait), Patience(deadline)))
        assert isinstance(sent, Send)
        assert (sent.timeout, sent.within) == (timeout, deadline + wait)


def test_a_node_that_is_busy_and_names_a_time_has_failed() -> None:
    steps = carrier().carry(Tasks.get.call("1"), Patience(tries=2))
    next(steps)
    assert isinstance(steps.send(BUSY), Sleep)
    next(steps)
    with pytest.raises(Unavailable):
        steps.send(BUSY)


@pytest.mark.parametrize(
    ("after", "date", "seconds"),
    [
        ("Sun, 29 Nov 2026 13:37:30 GMT", "Sun, 29 Nov 2026 13:37:00 GMT", 30.0),
        ("Sun, 29 Nov 2026 13:36:00 GMT", "Sun, 29 Nov 2026 13:37:00 GMT", 0.0),
        ("Sun, 29 Nov 2026 13:37:30 GMT", "", 0.0),
        ("Sun, 29 Nov 2026 13:37:30 -0000", "Sun, 29 Nov 2026 13:37:00 GMT", 0.0),
        ("soon", "Sun, 29 Nov 2026 13:37:00 GMT", 0.0),
    ],
)
def test_a_time_at_which_to_come_back_is_heeded_by_the_clock_of_who_names_it(
    after: str, date: str, seconds: float
) -> None:
    """A node sends seconds; a proxy may send a date. Regression: dates were ignored, and all tries failed at once."""
    steps = carrier().carry(Tasks.get.call("1"), PATIENCE)
    next(steps)
    pause = steps.send(Answer(429, {"retry-after": after, "date": date}, b""))
    assert isinstance(pause, Sleep)
    assert seconds < pause.seconds <= seconds + FIRST_PAUSE


def test_a_body_that_no_node_takes_is_not_sent() -> None:
    """Regression: the connection broke while 5 MB were being sent, and they were sent seven times."""
    for size in (LARGEST_BODY, LARGEST_BODY + 1):
        call = Messages.stream.call(b"a" * size)
        if size == LARGEST_BODY:
            assert isinstance(next(carrier().carry(call, PATIENCE)), Send)
        else:
            with pytest.raises(InvalidRequest, match=str(size)) as refused:
                next(carrier().carry(call, PATIENCE))
            assert (refused.value.status, refused.value.code) == (413, "body.too_large")


def test_a_call_outlasts_the_restart_of_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds even if every random pause is as short as possible."""
    monkeypatch.setattr("random.uniform", min)
    steps = carrier().carry(Messages.send.call("Hello"), PATIENCE)
    paused = 0.0
    with pytest.raises(Unreachable):
        while True:
            assert isinstance(next(steps), Send)
            pause = steps.throw(NoAnswer("refused", unsent=True))
            assert isinstance(pause, Sleep)
            paused += pause.seconds
    assert paused > 5


def test_the_last_failure_is_raised() -> None:
    steps = carrier().carry(Tasks.get.call("1"), Patience(tries=3))
    for _ in range(2):
        assert isinstance(next(steps), Send)
        assert isinstance(steps.throw(NoAnswer("reset", unsent=False)), Sleep)
    next(steps)
    with pytest.raises(Unreachable):
        steps.throw(NoAnswer("reset", unsent=False))


@pytest.mark.parametrize("is_unsent", [True, False])
def test_what_must_not_be_done_twice_is_sent_again_only_if_it_did_not_arrive(is_unsent: bool) -> None:
    steps = carrier().carry(Board.report.call("1", "It is spam."), PATIENCE)
    next(steps)
    if is_unsent:
        assert isinstance(steps.throw(NoAnswer("refused", unsent=True)), Sleep)
    else:
        with pytest.raises(Unreachable):
            steps.throw(NoAnswer("reset", unsent=False))


@pytest.mark.parametrize(
    ("status", "code", "repeated"),
    [
        (400, "request.invalid", ""),
        (404, "task.unknown", ""),
        (409, "task.state", ""),
        (408, "", "safe key unsent"),
        (429, "limit.exceeded", "safe key unsent"),
        (500, "", "safe key"),
        (500, "server.bug", "safe key"),
        (501, "", ""),
        (502, "", "safe key"),
        (503, "", "safe key"),
        (503, "store.unknown", "safe key"),
        (503, "store.unavailable", "safe key unsent"),
        (507, "artifact.full", ""),
    ],
)
def test_an_error_is_followed_by_another_try_if_that_can_help_and_does_nothing_twice(
    status: int, code: str, repeated: str
) -> None:
    kinds: tuple[Repeat, ...] = ("safe", "key", "unsent")
    tried: list[str] = []
    for repeat in kinds:
        steps = carrier().answer(Call("POST", "/api/v1/relay", repeat=repeat), PATIENCE)
        next(steps)
        with suppress(Refused):
            assert isinstance(steps.send(Answer(status, {"x-error-code": code}, b"{}")), Sleep)
            tried.append(repeat)
    assert " ".join(tried) == repeated


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (302, Refused),
        (400, InvalidRequest),
        (401, NotAllowed),
        (403, NotAllowed),
        (404, NotFound),
        (409, Conflict),
        (410, NotFound),
        (413, InvalidRequest),
        (422, InvalidRequest),
        (429, Limited),
        (503, Unavailable),
    ],
)
def test_a_refusal_is_of_the_kind_that_its_status_says(status: int, kind: type[Refused]) -> None:
    assert type(refusal(status, {}, b"{}")) is kind


def test_a_try_that_ends_after_the_deadline_is_the_last() -> None:
    now = 0.0
    steps = Carrier("http://127.0.0.1", clock=lambda: now).carry(Tasks.get.call("1"), PATIENCE)
    next(steps)
    now = PATIENCE.deadline
    with pytest.raises(DeadlineExceeded, match="the deadline has passed: reset"):
        steps.throw(NoAnswer("reset", unsent=False))


@pytest.mark.parametrize("given", [{"deadline": 0}, {"deadline": math.nan}, {"tries": 0}])
def test_a_patience_that_allows_no_try_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Patience(**given)


def test_of_several_limits_the_one_that_is_used_up_is_waited_for() -> None:
    one = carrier()
    for said in ('"relay";r=3;t=60, "address";r=0;t=5', '"address";r=0;t=5, "relay";r=0;t=9, "site";r=2;t=60'):
        steps = one.carry(Messages.send.call("Hello"), PATIENCE)
        one.limits.clear()
        next(steps)
        with pytest.raises(StopIteration):
            steps.send(Answer(200, {"ratelimit": said}, b"{}"))
        pause = next(one.carry(Messages.send.call("Hello"), PATIENCE))
        assert isinstance(pause, Sleep)
        assert pause.seconds == (5 if said.startswith('"relay"') else 9)


def test_only_so_many_limits_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay_client.carrier.LIMITS_KEPT", 2)
    one = carrier()
    for number in range(5):
        steps = one.carry(Tasks.get.call(str(number)), PATIENCE)
        next(steps)
        with pytest.raises(StopIteration):
            steps.send(SECOND_LAST)
        assert 1 <= len(one.limits) <= 2


@pytest.mark.parametrize("before", [UNKNOWN, NoAnswer("reset", unsent=False), NoAnswer("refused", unsent=True)])
def test_a_refusal_after_a_try_without_an_answer_says_so(before: Answer | NoAnswer) -> None:
    steps = carrier().carry(Tasks.release.call("1", "token"), PATIENCE)
    next(steps)
    if isinstance(before, NoAnswer):
        steps.throw(before)
    else:
        steps.send(before)
    next(steps)
    with pytest.raises(Refused) as refused:
        steps.send(CONFLICT)
    assert refused.value.may_have_happened == (before is UNKNOWN or "reset" in str(before))


def test_what_may_have_happened_at_first_may_have_happened_whatever_became_of_later_tries() -> None:
    steps = carrier().carry(Tasks.release.call("1", "token"), PATIENCE)
    for lost in (NoAnswer("reset", unsent=False), NoAnswer("refused", unsent=True)):
        next(steps)
        assert isinstance(steps.throw(lost), Sleep)
    next(steps)
    with pytest.raises(Refused) as refused:
        steps.send(CONFLICT)
    assert refused.value.may_have_happened


def test_a_pause_that_ends_after_the_deadline_is_not_begun() -> None:
    steps = carrier().carry(Messages.send.call("Hello"), Patience(deadline=5))
    next(steps)
    with pytest.raises(Limited, match=r"Wait\. \(429 limit\.exceeded, Retry-After: 7\)"):
        steps.send(LIMITED)


def test_calls_that_do_not_count_do_not_use_a_limit_up() -> None:
    one = carrier()
    steps = one.carry(Messages.send.call("Hello"), PATIENCE)
    next(steps)
    with pytest.raises(StopIteration):
        steps.send(SECOND_LAST)
    for _ in range(2):  # calls whose answers say nothing about the limit
        assert isinstance(next(one.carry(Messages.send.call("Hello"), PATIENCE)), Send)
    third = next(one.carry(Messages.send.call("Hello"), PATIENCE))
    assert isinstance(third, Sleep)
    assert third.seconds < 1


def test_calls_of_one_path_use_one_limit_up_whatever_their_queries_say() -> None:
    one = carrier()
    steps = one.carry(Tasks.list.call(), PATIENCE)
    next(steps)
    with pytest.raises(StopIteration):
        steps.send(LAST)
    assert isinstance(next(one.carry(Tasks.list.call("completed", limit=5), PATIENCE)), Sleep)


def test_who_listens_is_told_why_a_call_waits(caplog: pytest.LogCaptureFixture) -> None:
    """Regression: a program that exceeded its limit stood still for a minute, and nothing said why."""
    caplog.set_level("INFO", logger="relay_client.carrier")
    one = carrier()
    steps = one.carry(Messages.send.call("Hello"), PATIENCE)
    next(steps)
    assert isinstance(steps.send(LIMITED), Sleep)
    next(steps)
    with pytest.raises(StopIteration):
        steps.send(LAST)
    assert isinstance(next(one.carry(Messages.send.call("Hello"), PATIENCE)), Sleep)
    put_off, used_up = caplog.messages
    assert put_off.endswith("before another try: Wait. (429 limit.exceeded, Retry-After: 7)")
    assert used_up == "waiting 42 s: the limit of relay is used up"


def test_a_limit_that_is_used_up_is_waited_for() -> None:
    one = carrier()
    steps = one.carry(Messages.send.call("Hello"), PATIENCE)
    next(steps)
    with pytest.raises(StopIteration):
        steps.send(LAST)
    pause = next(one.carry(Messages.send.call("Hello"), PATIENCE))
    assert isinstance(pause, Sleep)
    assert pause.seconds == 42
    later = Carrier("http://127.0.0.1", clock=lambda: 43.0, limits=one.limits)
    assert isinstance(next(later.carry(Messages.send.call("Hello"), PATIENCE)), Send)
    second = next(later.carry(Messages.send.call("Hello"), PATIENCE))
    assert isinstance(second, Sleep), "one at a time, until an answer says how many may follow"
    assert isinstance(next(one.carry(Tasks.get.call("1"), PATIENCE)), Send)
    one.limits["relay"] = Limit(0, 42.0)
    with pytest.raises(DeadlineExceeded):
        next(one.carry(Messages.send.call("Hello"), Patience(deadline=5)))
