"""What scenarios compute besides latencies: winners, recall, crowds."""

from array import array

from bench.client import Answer, Pool
from bench.scenarios.claim import Races
from bench.scenarios.idle import Crowd, gathered
from bench.scenarios.overload import Witness
from bench.scenarios.search import Hit, recall
from bench.server import Server
from tests.bench.stand_in import stand_in
from tests.support.servers import eventually


def hits(*scores: float) -> list[Hit]:
    return [Hit(thread_id=str(number), score=score, mode="both") for number, score in enumerate(scores)]


def test_recall_is_the_share_of_hits_as_good_as_the_exact_ones() -> None:
    assert recall([hits(0.9, 0.8)], [hits(0.9, 0.8)]) == 1
    assert recall([hits(0.9, 0.8)], [hits(0.9, 0.5)]) == 0.5
    assert recall([hits(0.9, 0.8), hits(0.7, 0.6)], [hits(0.9, 0.8), []]) == 0.5


def test_equals_may_change_places_without_loss_of_recall() -> None:
    exact, found = hits(0.9, 0.8), hits(0.9, 0.80001)
    found[1].thread_id = "another that scores the same"
    assert recall([exact], [found]) == 1


def test_a_race_is_won_when_one_claim_gets_200_and_all_others_are_refused() -> None:
    races = Races(["a", "b", "c", "d", "e"])
    for statuses in ((200, 409, 409), (200, 200, 409), (409, 500, 200), (409, 503, 409), (503, 200, 409)):
        for index, status in enumerate(statuses):
            call = races.claims(index)
            assert f"/tasks/{'abcde'[len(races.run) - 1]}/claim".encode() in call.wire
            assert call.answered is not None
            call.answered(status, b"")
    assert races.won_once == 2


def test_every_refusal_is_searched_for_its_retry_after() -> None:
    witness = Witness(Pool("127.0.0.1", 1, 1), 0)
    Witness.took, Witness.with_retry_after = array("q"), 0
    for head in (b"503 X\r\nRetry-After: 1", b"503 X\r\nServer: x", b"200 OK\r\nServer: x"):
        assert isinstance(witness.answer(b"HTTP/1.1 " + head + b"\r\nContent-Length: 0\r\n\r\n"), Answer)
    assert (len(Witness.took), Witness.with_retry_after) == (2, 1)


async def test_a_crowd_notes_when_it_was_shown_out() -> None:
    async with stand_in() as server:
        node = Server(name="stand-in", port=server.port)
        async with gathered(node, Crowd("drip", b"POST / HTTP/1.1\r\n", b"x"), 5) as idlers:
            await eventually(lambda: len(server.connections) == 5)
            assert [idler.seconds for idler in idlers] == [None] * 5
            for transport in list(server.connections):
                transport.abort()
            await eventually(lambda: all(idler.seconds is not None for idler in idlers))
        assert all(idler.seconds is not None and idler.seconds > 0 for idler in idlers)
