"""The parts of the scenario `neighbours`, each on a real node or receiver. How well a node does is left to the
bench.
"""

import asyncio
import contextlib
import gc
import itertools
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bench.lab import Lab, Options
from bench.load import closed_loop
from bench.neighbours.attacks import ATTACKS, LONGEST_REPLY, SAMPLE, Ground, contracts, riddled, under_attack
from bench.neighbours.callbacks import FAILING, Probe, Receiver, probing, receiving
from bench.neighbours.day import IN_TURN, SHARES, client, prepared
from bench.neighbours.names import led_to, name_server, reply
from bench.node import no_prefix
from bench.result import Results, Row, Spread
from bench.scenarios.neighbours import SETTINGS, Outcome
from bench.server import Server, Unfit
from tests.bench.stand_in import stand_in
from tests.support.node_under_test import PATIENCE
from tests.support.servers import eventually

MIB = 1024 * 1024


@pytest.fixture(autouse=True, scope="module")
def frozen() -> Iterator[None]:
    """Collect what other tests left in memory once, in advance, and not while connections to a node wait for it."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def lab() -> Lab:
    return Lab("neighbours", Options(), Results(taken="today", arguments=[], machine={}))


def ground(*threads: str) -> Ground:
    return Ground(7, list(threads or ("thread",)), Receiver("127.0.0.1", "shared", named=True))


def question(name: str, kind: int) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return b"\x12\x34\x01\x00\0\1\0\0\0\0\0\0" + labels + b"\0" + kind.to_bytes(2) + b"\0\1"


def test_only_names_of_receivers_are_answered() -> None:
    asked = question("Hooks.some.example", 1)
    answer = reply(asked, "127.9.8.7")
    assert answer is not None
    assert answer[:2] == asked[:2]
    assert (answer[6:8], answer[-4:]) == (b"\0\1", bytes([127, 9, 8, 7]))
    no_address = reply(question("hooks.some.example", 28), "127.9.8.7")
    assert no_address is not None
    assert no_address[6:8] == b"\0\0"
    assert reply(question("www.silent-1.example", 1), "127.9.8.7") is None


async def test_a_process_that_is_led_to_a_name_server_asks_it_and_no_other(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        try:
            names = await stack.enter_async_context(name_server())
        except Unfit as unfit:
            if "CI" in os.environ:
                raise
            pytest.skip(str(unfit))
        names.target = "127.9.8.7"
        code = "import socket; print(socket.gethostbyname('hooks.some.example'))"
        process = await asyncio.create_subprocess_exec(
            *led_to(names, tmp_path), sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
        assert said == b"127.9.8.7\n"
        silent = await asyncio.create_subprocess_exec(
            *led_to(names, tmp_path), sys.executable, "-c", code.replace("hooks", "www")
        )
        await eventually(lambda: names.unanswered > 0)
        silent.kill()
        await silent.wait()


async def test_where_no_node_can_be_led_to_it_there_is_no_name_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("bench.neighbours.names.RESOLV_CONF", tmp_path / "none")
    with pytest.raises(Unfit, match="take"):
        async with name_server():
            pass


async def test_a_receiver_notes_who_called_and_fails_where_it_is_to_fail() -> None:
    async with receiving("127.0.0.1", "shared", named=False) as receiver:
        statuses: list[bytes] = []
        for path in ("/one", f"{FAILING}/two"):
            reader, writer = await asyncio.open_connection(receiver.address, receiver.port)
            writer.write(b"POST %b HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}" % path.encode())
            statuses.append((await reader.read()).split(b" ")[1])
            writer.close()
        assert statuses == [b"204", b"503"]
        assert list(receiver.arrived) == ["/one", f"{FAILING}/two"]
        assert receiver.shared("/x") == f"http://127.0.0.1:{receiver.port}/x"


def test_every_kind_has_its_part_and_no_client_comes_near_a_limit() -> None:
    assert {kind: IN_TURN.count(kind) for kind in SHARES} == SHARES
    assert min(SHARES.values()) / len(IN_TURN) > 0.01
    a_minute = range(12_000)  # at 200 requests a second
    asked = Counter((client(number), IN_TURN[number % len(IN_TURN)]) for number in a_minute)
    assert len({address for address, _ in asked}) == 1000
    assert max(asked.values()) <= 3  # of the ten that the strictest limit allows


def test_a_riddled_text_is_english_where_a_gate_of_evenly_spaced_windows_looks() -> None:
    text = riddled(1)
    assert len(text) == LONGEST_REPLY
    assert "This is note 1." in text[:SAMPLE]
    assert text[SAMPLE : SAMPLE + 400].count(" ") >= 79  # words of four letters


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_no_two_requests_of_an_attack_are_alike_and_none_is_larger_than_a_body_may_be(attack: object) -> None:
    assert attack in ATTACKS
    calls = next(each for each in ATTACKS if each is attack).calls(ground("one", "two"))
    wires = [calls(number).wire for number in range(8)]
    assert len(set(wires)) == 8
    assert all(b"\r\nX-Forwarded-For: " in wire for wire in wires)
    assert all(len(wire.partition(b"\r\n\r\n")[2]) <= MIB for wire in wires)


def test_a_contract_is_offered_claimed_begun_and_completed() -> None:
    calls = contracts(ground(), ["http://hooks.a.example/"])
    paths: list[bytes] = []
    for status in (201, 200, 200, 200, 429):
        call = calls(0)
        paths.append(call.wire.split(b" ")[1])
        if call.answered is not None:
            call.answered(status, msgspec.json.encode({"id": "t", "claim_token": "1.token"}))
    steps = [b"/t/claim", b"/t/transition", b"/t/complete", b""]
    assert paths == [b"/api/v1/tasks", *(b"/api/v1/tasks" + step for step in steps)]


async def test_an_attack_goes_on_until_the_end_of_the_block_and_no_further() -> None:
    async with stand_in() as server:
        node = Server(name="stand-in", port=server.port)
        async with under_attack(lab(), node, ATTACKS[0].calls(ground()), 2) as statuses:
            await eventually(lambda: statuses.total() >= 20)
        await eventually(lambda: not server.connections)
        assert set(statuses) == {200}


async def test_a_real_node_serves_each_kind_of_request_and_survives_each_attack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bench.neighbours.callbacks.FINISH_SECONDS", PATIENCE)
    bench = lab()
    async with contextlib.AsyncExitStack() as stack:
        # A disk that other tests keep busy may stall for longer than a Redis call may usually take.
        patient = SETTINGS | {"RELAY_STORE_TIMEOUT": str(PATIENCE)}
        node = await stack.enter_async_context(bench.node("serve", no_prefix, **patient))
        receiver = await stack.enter_async_context(receiving("127.78.0.1", "shared", named=False))
        day = await prepared(bench, node)
        async with bench.pool(node, 8) as pool:
            seen = await closed_loop(pool, day.call, PATIENCE, count=3 * len(IN_TURN))
        assert (seen.good, seen.bad) == (3 * len(IN_TURN), 0), seen.statuses
        assert set(seen.counts) == set(SHARES)

        probe = Probe(node, receiver, client, "test")
        async with probing(probe):
            await eventually(lambda: probe.events > 0)
        await probe.finish()
        assert probe.missing == 0

        async with bench.pool(node, 2) as pool:
            for number, attack in zip(itertools.count(1), ATTACKS, strict=False):
                calls = attack.calls(Ground(number, day.threads, receiver))
                seen = await closed_loop(pool, calls, PATIENCE, count=4)
                assert seen.sent == 4
                assert max(seen.statuses) < 500, attack.name


def row(p99: float, **statuses: int) -> Row:
    figures = {"p50_ms": Spread.of([1.0]), "p99_ms": Spread.of([p99])}
    return Row(scenario="neighbours", subject="relay-node", what="", figures=figures, statuses=statuses)


def test_what_others_lost_is_what_the_node_failed_to_answer() -> None:
    beside = row(60.0, **{"200": 90, "404": 1, "429": 2, "503": 3, "507": 4, "closed": 5})
    outcome = Outcome("an attack", row(20.0), beside, 0.1, 7.5, 1, 8, {"429": 1000})
    assert (outcome.times, outcome.failed) == (3.0, 12)
    assert outcome.line() == ["an attack", 1.0, 20.0, 1.0, 60.0, 3.0, 12, 0.1, 7.5, "7 of 8", "429: 1,000"]
