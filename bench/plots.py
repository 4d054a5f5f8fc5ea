"""The plots of docs/performance.md, made from the figures of one run: `python -m bench.document` writes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .figures import OURS, YARDSTICKS, Figure, Results
from .paces import PACES
from .svg import Bar, Line, bars, lines, ranges

NAMES = {"bare": "a bare INSERT", "pgbench": "our SQL, pgbench"}


@dataclass(frozen=True, slots=True)
class Plot:
    name: str
    """Of its file, without the ending."""
    title: str
    draw: Callable[[Results, str], str | None]
    """None when the run has not measured what it needs."""


def _compared(axis: str, case: str, *more: tuple[str, str, str]) -> Callable[[Results, str], str | None]:
    """Bars of a case in all systems, and `more` of ours or a yardstick's: system, axis and case, label."""

    def draw(results: Results, title: str) -> str | None:
        found = [results.find(axis, case, system) for system in (*results.systems, *YARDSTICKS)]
        rows = [_bar(figure, NAMES.get(figure.system, figure.system)) for figure in found if figure]
        for system, place, label in more:
            other_axis, _, other_case = place.partition("/")
            if figure := results.find(other_axis, other_case, system):
                rows.insert(1, _bar(figure, label))
        return bars(title, _unit(axis, case, results), rows) if rows else None

    return draw


def _bar(figure: Figure, label: str) -> Bar:
    kind = "ours" if figure.system == OURS else "yardstick" if figure.system in YARDSTICKS else ""
    return Bar(label, figure.median, min(figure.values), max(figure.values), kind)


def _unit(axis: str, case: str, results: Results) -> str:
    figure = results.find(axis, case) or next(iter(results.peers(axis, case)))
    return figure.unit


def _pickup(results: Results, title: str) -> str | None:
    rows = []
    for system in (*results.systems, *YARDSTICKS):
        half, most = (results.find("pickup", f"idle.p{share}", system) for share in (50, 99))
        if half and most:
            kind = "ours" if system == OURS else ""
            label = "a bare commit" if system in YARDSTICKS else system
            rows.append(Bar(label, half.median, half.median, most.median, kind))
    return ranges(title, "ms, median to 99th percentile, logarithmic", rows) if rows else None


def _paces(results: Results, title: str) -> str | None:
    """Of the systems that were measured at every pace."""
    series = []
    for system in results.systems:
        found = [results.find("pickup", f"{pace.case}.p50", system) for pace in PACES]
        if all(found):
            series.append(Line(system, [figure.median for figure in found if figure]))
    marks = [pace.name for pace in PACES]
    return lines(title, "ms, median", "a job every", marks, series) if series else None


def _pinned(holder: str) -> Callable[[Results, str], str | None]:
    def draw(results: Results, title: str) -> str | None:
        series = []
        for system in results.systems:
            quarters = [results.find("pinned", f"{holder}.q{n}", system) for n in range(1, 5)]
            if all(quarters):
                series.append(Line(system, [figure.median for figure in quarters if figure]))
        marks = ("first", "second", "third", "last")
        return lines(title, "jobs/s", "quarter of the jobs", marks, series) if series else None

    return draw


def _growing(axis: str, across: str, *series: tuple[str, str]) -> Callable[[Results, str], str | None]:
    """Lines of ours over the number with which cases of an axis end; `series`: how the case begins, and a label."""

    def draw(results: Results, title: str) -> str | None:
        drawn, marks = [], []
        for begins, label in series:
            found = sorted((int(f.case.removeprefix(begins)), f.median) for f in _numbered(results, axis, begins))
            if len(found) > 1:
                marks = [f"{at:,}" for at, _ in found]
                drawn.append(Line(label, [value for _, value in found]))
        return lines(title, "jobs/s", across, marks, drawn) if drawn else None

    return draw


def _numbered(results: Results, axis: str, begins: str) -> list[Figure]:
    ours = (f for f in results.figures if f.axis == axis and f.system == OURS and f.case.startswith(begins))
    return [figure for figure in ours if figure.case.removeprefix(begins).isdigit()]


PLOTS = (
    Plot(
        "drain", "Drain of no-op jobs, one worker process (more is better)",
        _compared("drain", "rate", ("pgbench", "ceiling/clients.2", "our SQL, pgbench")),
    ),
    Plot(
        "enqueue-bulk", "Enqueue, many per call (more is better)",
        _compared("enqueue", "bulk", (OURS, "enqueue/copy", "holdfast, COPY")),
    ),
    Plot("enqueue-single", "Enqueue, one commit each (more is better)", _compared("enqueue", "single")),
    Plot("pickup", "From enqueue to the start of the handler, idle worker (less is better)", _pickup),
    Plot("pickup-paces", "From enqueue to the start of the handler, by pace (less is better)", _paces),
    Plot("cpu", "CPU of worker and server per job (less is better)", _compared("drain", "cpu")),
    Plot("wal", "WAL per job of a drain (less is better)", _compared("drain", "wal")),
    Plot("memory", "Memory of a worker and its processes (less is better)", _compared("drain", "memory")),
    Plot("pinned-snapshot", "Drain by quarters while a snapshot is held (flat is good)", _pinned("snapshot")),
    Plot("pinned-xid", "Drain by quarters while a transaction id is held (flat is good)", _pinned("xid")),
    Plot(
        "backlog", "Drain of the first 10,000 jobs of a backlog (flat is good)",
        _growing("backlog", "jobs behind them", ("rate.", "holdfast")),
    ),
    Plot(
        "workflows-1", "Workflows of one no-op step, 100 in flight, one worker process (more is better)",
        _compared("workflows", "steps.1.c100"),
    ),
    Plot(
        "workflows-5", "Workflows of five no-op steps, 100 in flight, one worker process (more is better)",
        _compared("workflows", "steps.5.c100"),
    ),
    Plot(
        "processes", "Drain by worker processes, two cores (no-op jobs)",
        _growing("processes", "processes", ("noop.", "no-op")),
    ),
    Plot(
        "processes-waiting", "Drain by worker processes (handlers that wait 50 ms, 20 at a time)",
        _growing("processes", "processes", ("async_50.", "50 ms")),
    ),
)  # fmt: skip


def draw(results: Results) -> dict[str, str]:
    """The text of each file that can be made, by its name."""
    drawn = {f"{plot.name}.svg": plot.draw(results, plot.title) for plot in PLOTS}
    return {name: text for name, text in drawn.items() if text is not None}
