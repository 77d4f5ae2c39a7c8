"""The plots of a run: latency over rate, cost over stored data, and requests per second compared with the peers."""

from pathlib import Path
from typing import Any

from bench.measurement import PERCENTILES
from bench.result import NODE, Results
from bench.scenarios import growth, relay

LATENCY, COST, PEERS = "latency-over-rate.png", "cost-over-data.png", "peers.png"

TARGET_MS = 20.0


def draw(results: Results, directory: Path) -> list[str]:
    """Draw every plot that the run has figures for, and return the file names. Without matplotlib, draw nothing."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - in the bench group; a report can do without plots
    except ModuleNotFoundError:
        return []
    mpl.use("Agg")
    directory.mkdir(parents=True, exist_ok=True)
    pictures = {LATENCY: _latency(results), COST: _cost(results), PEERS: _peers(results)}
    for name, figure in pictures.items():
        if figure is not None:
            figure.savefig(directory / name, dpi=110, bbox_inches="tight", metadata={"Software": None})
    return [name for name, figure in pictures.items() if figure is not None]


def _axes(title: str, across: str, up: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    figure = Figure(figsize=(7, 4))
    axes: Any = figure.add_subplot()
    axes.set(title=title, xlabel=across, ylabel=up)
    axes.grid(visible=True, alpha=0.3)
    return figure, axes


def _latency(results: Results) -> Any:
    """Plot the latency percentiles of the acknowledgement as the rate rises towards the ceiling."""
    rows = [results.row("relay", NODE, relay.SWEEP.format(share=share)) for share in relay.SHARES]
    rates = [(row.rate, row) for row in rows if row is not None and row.rate]
    if len(rates) < 2:
        return None
    figure, axes = _axes("Relay acknowledgement, whole node, worker embedding", "requests due per second", "ms")
    for name in PERCENTILES:
        label = name.removesuffix("_ms").replace("_", ".")
        axes.plot([rate for rate, _ in rates], [row.median(name) for _, row in rates], marker="o", label=label)
    axes.axhline(TARGET_MS, linestyle="--", color="grey", label="20 ms")
    axes.set_yscale("log")
    axes.legend()
    return figure


def _cost(results: Results) -> Any:
    """Plot the CPU time of web process and Redis for each kind of request over the number of stored entities."""
    figure, axes = _axes("Cost over stored data", "entities stored", "CPU µs a request, web and Redis")
    drawn = False
    for what in growth.WHATS:
        found = [(size, results.row("growth", NODE, growth.AT.format(what=what, size=size))) for size in growth.SIZES]
        points = [(size, row.cpu_us) for size, row in found if row is not None]
        if len(points) > 1:
            axes.plot([size for size, _ in points], [cost for _, cost in points], marker="o", label=what)
            drawn = True
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    if not drawn:
        return None
    axes.legend()
    return figure


def _peers(results: Results) -> Any:
    """Plot the requests per second of the node and its peers, each at the ceiling of one process."""
    rows = [row for row in results.rows if row.scenario == "relay" and row.what == relay.CEILING]
    if len(rows) < 2:
        return None
    figure, axes = _axes("Relay acknowledgement: ceiling of one process", "answered per second", "")
    rows.sort(key=lambda row: row.requests_per_s)
    colours = ["tab:orange" if row.subject == NODE else "tab:blue" for row in rows]
    axes.barh([row.subject for row in rows], [row.requests_per_s for row in rows], color=colours)
    return figure
