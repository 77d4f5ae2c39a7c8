"""The command line, `python -m bench <scenario> …`: what to measure, for how long, and where to write the report."""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from bench import report
from bench.compare import last_of
from bench.lab import Lab, Options
from bench.quiet import quiet
from bench.result import Results, machine
from bench.scenario import Scenario
from bench.scenarios import ALL
from bench.server import Unfit, given
from node.common.process import raise_descriptor_limit

RESULTS = Path(__file__).parent / "results"
MOST_SECONDS_A_SCENARIO = 7200


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status: 0 if everything that was asked for was measured."""
    asked = parser().parse_args(arguments)
    options = Options(
        rate=asked.rate,
        seconds=asked.seconds or (10.0 if asked.full else 2.0),
        warmup=asked.warmup,
        runs=asked.runs or (1 if asked.rate else 3),
        connections=asked.connections,
        url=asked.url,
        full=asked.full,
        peers=not asked.no_peers,
    )
    wanted = chosen(asked.scenario, full=asked.full)
    now = datetime.now(UTC)
    results = Results(
        taken=now.strftime("%Y-%m-%d %H:%M UTC"),
        arguments=list(sys.argv[1:] if arguments is None else arguments),
        machine=machine(Path(tempfile.gettempdir())),
    )
    raise_descriptor_limit()
    try:
        if options.url:
            given(options.url)
        whole = uvloop.run(_measure(wanted, options, results, wait=not (asked.no_wait or asked.url)))
    except (Unfit, ValueError) as wrong:
        print(f"bench: {wrong}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        whole = False
    directory = asked.out or RESULTS / f"{now:%Y%m%d-%H%M%S}-{'-'.join(asked.scenario) or 'all'}"
    before = last_of(results, RESULTS) if asked.compare else None
    report.write(results, directory)
    print(report.markdown(results))
    if asked.compare:
        print(f"\n{report.compared(before, results) if before else 'No earlier run of this machine to compare with.'}")
    print(f"\nwritten to {directory}", file=sys.stderr)
    if asked.readme:
        report.publish(results)
    return 0 if whole else 1


def chosen(names: Sequence[str], *, full: bool) -> list[Scenario]:
    """Return the scenarios of these names. `all`, or no name, selects every one, `full_only` ones only if `full`."""
    return [s for s in ALL if s.name in names or ((not names or "all" in names) and (full or not s.full_only))]


async def _measure(wanted: Sequence[Scenario], options: Options, results: Results, *, wait: bool) -> bool:
    """Run the scenarios one after the other, and return whether all of them could run. The results note the others.

    `wait`: wait for a quiet machine before each scenario.
    """
    whole = True
    for scenario in wanted:
        lab = Lab(scenario.name, options, results)
        if wait:
            await quiet(lab.say)
        try:
            async with asyncio.timeout(MOST_SECONDS_A_SCENARIO):
                await scenario.run(lab)
        except (Unfit, TimeoutError) as wrong:
            lab.skip(scenario.name, wrong if str(wrong) else TimeoutError("took too long"))
            whole = False
    return whole


def _name(text: str) -> str:
    if text != "all" and text not in {scenario.name for scenario in ALL}:
        raise argparse.ArgumentTypeError(f"{text!r} is no scenario")
    return text


def parser() -> argparse.ArgumentParser:
    names = [scenario.name for scenario in ALL]
    made = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure a relay node, and its peers in the same run.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="scenarios:\n" + "\n".join(f"  {s.name:<10} {s.about}" for s in ALL),
    )
    add = made.add_argument
    add("scenario", nargs="*", metavar="scenario", type=_name, help=f"{', '.join(names)}, or all; default: all")
    add("--rate", type=float, help="requests a second, open loop; default: half of what the node can do")
    add("--seconds", type=float, help="length of one run; default 2, with --full 10")
    add("--warmup", type=float, default=1.0, help="seconds of the same load before the first run")
    add("--runs", type=int, help="runs of each measurement; default 3, with --rate 1")
    add("--connections", type=int, default=64, help="keep-alive connections, each from an address of its own")
    add("--url", default="", help="a node that is running on this machine; default: one is started")
    add("--full", action="store_true", help="longer runs, larger boards, and the growth scenario")
    add("--no-peers", action="store_true", help="the node only")
    add("--out", type=Path, help="directory for results.json, report.md and plots")
    add("--readme", action="store_true", help="put the report into bench/README.md and README.md as well")
    add("--compare", action="store_true", help="beside the last run of this machine in bench/results")
    add("--no-wait", action="store_true", help="do not wait for the machine to be quiet; implied by --url")
    return made


if __name__ == "__main__":
    sys.exit(main())
