"""The cost of operations relative to an acknowledgement (DESIGN 12): ceilings on one node, in alternating runs."""

from collections.abc import Sequence

from bench.client import Call, request
from bench.entities import Sessions, in_turn, relay_messages, sessions, tasks, threads
from bench.lab import Lab
from bench.load import Calls
from bench.scenario import Scenario
from bench.server import Unfit

THREADS = 2000
SESSIONS = 256
CLAIMS_A_SECOND = 16_000
"""More claims than one web process can answer. Each claim needs its own contract."""

ACK = "relay messages, ceiling"
POST = "post a thread, ceiling"
THREAD_LIST = "list of 20 threads, ceiling"
OFFER_LIST = "list of 20 offered contracts, ceiling"
CLAIM = "claim a contract, ceiling"
POLL = "poll with nothing new, ceiling"


async def run(lab: Lab) -> None:
    async with lab.node("web") as node:
        await lab.fill(node, threads(lab), THREADS, "threads")
        contracts = await tasks(lab, node, round(CLAIMS_A_SECOND * lab.seconds_of_a_measurement))
        polled = Sessions(await sessions(lab, node, SESSIONS))
        await lab.at_ceilings(
            node,
            {
                ACK: relay_messages(lab),
                POST: threads(lab),
                THREAD_LIST: in_turn([request("GET", "/api/v1/board?limit=20")]),
                OFFER_LIST: in_turn([request("GET", "/api/v1/tasks?status=offered&limit=20")]),
                CLAIM: claims(contracts),
                POLL: lab.numbered(lambda number: polled.poll(number, behind=0)),
            },
        )


def claims(contracts: Sequence[str]) -> Calls:
    """Claim one contract after the other. Raises Unfit when none is left."""
    left = iter(contracts)

    def call(index: int) -> Call:
        contract = next(left, None)
        if contract is None:
            raise Unfit(f"{len(contracts):,} contracts were too few: set --seconds or --runs lower")
        return Call(
            request("POST", f"/api/v1/tasks/{contract}/claim", b'{"assignee_id":"claimer-%d"}' % index), "claim"
        )

    return call


SCENARIO = Scenario("costs", "posts, lists, claims and polls beside an acknowledgement", run)
