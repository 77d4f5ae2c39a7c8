"""The claim race: 1,000 claimers, each from its own address, claim one task. Exactly one may win."""

from collections import Counter

from bench.client import Call
from bench.entities import tasks
from bench.lab import Lab
from bench.load import Calls, closed_loop
from bench.payload import Template
from bench.scenario import Scenario

CLAIMERS = 1000
RATE = 2000.0
RACES = 10
BURSTS = 3

RACE = "1,000 claimers on one task, open loop"
BURST = "1,000 claims at once: last answered"
WON = "races with exactly one winner"


async def run(lab: Lab) -> None:
    rate = lab.options.rate or RATE
    async with lab.node() as node:
        race = Races(await tasks(lab, node, RACES + BURSTS + 1))
        await lab.at_rate(
            node,
            race.claims,
            RACE,
            rate,
            connections=CLAIMERS,
            seconds=CLAIMERS / rate,
            warmup=CLAIMERS / rate,
            runs=RACES,
        )
        async with lab.pool(node, CLAIMERS) as pool:
            for _ in range(BURSTS):
                seen = await closed_loop(pool, race.claims, 10.0, count=CLAIMERS)
                lab.point(BURST, seen.latencies().largest, "ms")
    lab.point(WON, race.won_once, "races", f"of {len(race.run)}")


class Races:
    """Claims on one task after the other. A new race, on the next task, begins with the first request of each run."""

    def __init__(self, ids: list[str]) -> None:
        self._ids = ids
        self._claims: list[Template] = []
        self.run: list[Counter[int]] = []  # statuses of each race

    @property
    def claims(self) -> Calls:
        def call(index: int) -> Call:
            if index == 0:
                self._claims.append(Template("POST", f"/api/v1/tasks/{self._ids[len(self.run)]}/claim"))
                self.run.append(Counter())
            statuses = self.run[-1]

            def answered(status: int, _body: bytes) -> None:
                statuses[status] += 1

            return Call(self._claims[-1](b'{"assignee_id":"claimer-%d"}' % index), "", (200, 409), answered)

        return call

    @property
    def won_once(self) -> int:
        """Number of races with one winner, whose other claimers all got 409 (too late) or 503 (overload)."""
        return sum(
            statuses[200] == 1 and statuses[409] + statuses[503] == statuses.total() - 1 for statuses in self.run
        )


SCENARIO = Scenario("claim", "1,000 claimers race for one task", run)
