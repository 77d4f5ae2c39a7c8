"""How much the node keeps for each kind of request, and in which order kinds are refused."""

from collections.abc import Sequence

from node.share.cost import COSTS, SEARCHED_BYTES, Alarm


def test_what_is_searched_is_charged_six_times_as_far_as_it_is_searched() -> None:
    thread, line = COSTS["thread"], COSTS["line"]
    assert (thread.of(1000), line.of(1000)) == (thread.keeps + 6000, line.keeps + 1000)
    assert thread.of(SEARCHED_BYTES + 1000) == thread.keeps + 6 * SEARCHED_BYTES + 1000


def test_what_finishes_is_refused_last() -> None:
    stages: Sequence[Alarm] = [COSTS[kind].alarm for kind in ("thread", "task", "reply")]
    assert list(stages) == sorted(stages)
    assert {COSTS[kind].alarm for kind in ("claim", "step", "result")} == {Alarm.NEVER}
