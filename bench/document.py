"""Make the tables and plots of docs/performance.md from one run: `python -m bench.document docs/bench.json`.

Axes that were measured apart are in files beside it, `bench-NAME.json`, and take the place of those of the run.
The text between `<!-- bench: NAME -->` and `<!-- /bench -->` is generated here; everything else is written by hand.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from . import plots
from .figures import OURS, YARDSTICKS, Figure, Results, number
from .paces import BURSTS, PACES
from .relay.cases import KEYS, RATES, rate_case
from .workflows.cases import CASES

_PLACE = re.compile(r"(<!-- bench: (?P<name>[\w-]+) -->\n).*?(<!-- /bench -->)", re.S)

_UNMEASURED = "Not measured in this run."

COLUMNS = (
    ("drain, jobs/s", "drain", "rate"),
    ("CPU, µs a job", "drain", "cpu"),
    ("WAL, bytes a job", "drain", "wal"),
    ("memory, MB", "drain", "memory"),
    ("bulk enqueue, jobs/s", "enqueue", "bulk"),
    ("single enqueue, jobs/s", "enqueue", "single"),
    ("pick-up p50, ms", "pickup", "idle.p50"),
    ("p99, ms", "pickup", "idle.p99"),
)
"""What is measured of every system."""


def _conditions(results: Results) -> Iterable[str]:
    yield f"From one run: {results.under()}."
    for axes, conditions in results.apart.items():
        yield f"From another run, the axis {axes}: {conditions}."


def _targets(results: Results) -> Iterable[str]:
    rows = [
        (figure.axis, figure.name, _value(figure), str(figure.target), _verdict(figure))
        for figure in results.figures
        if figure.target and figure.system == OURS
    ]
    return _table(("axis", "what", "median (spread)", "target", ""), rows)


def _peers(results: Results) -> Iterable[str]:
    rows = []
    for system in results.systems:
        found = [results.find(axis, case, system) for _, axis, case in COLUMNS]
        if any(found):
            rows.append((system, *(number(figure.median) if figure else "–" for figure in found)))
    return _table(("one worker process", *(words for words, _, _ in COLUMNS)), rows)


def _pinned(results: Results) -> Iterable[str]:
    rows = []
    for system in results.systems:
        for holder, words in (("snapshot", "a snapshot"), ("xid", "a transaction id")):
            quarters = [results.find("pinned", f"{holder}.q{n}", system) for n in range(1, 5)]
            rates = [figure.median for figure in quarters if figure]
            if len(rates) == 4:
                rows.append((system, words, *map(number, rates), number(rates[3] / rates[0])))
    return _table(("jobs/s", "held", "first quarter", "second", "third", "last", "last ÷ first"), rows)


def _paces(results: Results) -> Iterable[str]:
    cases = [(pace.name, pace.case) for pace in PACES]
    rows = []
    for system in results.systems:
        found = [[results.find("pickup", f"{case}.p{share}", system) for share in (50, 99)] for _, case in cases]
        if any(half for half, _ in found):
            rows.append((system, *(_both(half, most) for half, most in found)))
    return _table(("p50 / p99 in ms, a job every", *(name for name, _ in cases)), rows) if rows else (_UNMEASURED,)


def _bursts(results: Results) -> Iterable[str]:
    rows = []
    for burst in BURSTS:
        for system in results.systems:
            found = [results.find("pickup", f"{burst.case}.{which}.p50", system) for which in ("each", "last")]
            if all(found):
                rows.append((burst.words, system, *(number(figure.median) for figure in found if figure)))
    return _table(("burst", "ms", "each job, median", "the last, median"), rows) if rows else (_UNMEASURED,)


def _workflows(results: Results) -> Iterable[str]:
    rows = []
    for system in results.systems:
        found = [results.find("workflows", case.name, system) for case in CASES]
        if any(found):
            rows.append((system, *(number(figure.median) if figure else "–" for figure in found)))
    return _table(("instances/s", *(case.words for case in CASES)), rows) if rows else (_UNMEASURED,)


def _relay(results: Results) -> Iterable[str]:
    rows = []
    for destination in RATES:
        found = [results.find("relay", rate_case(destination, ordered)) for ordered in (False, True)]
        if any(found):
            rows.append((destination, *(_value(figure) if figure else "–" for figure in found)))
    return _table(("to", "free", f"ordered, {KEYS} keys"), rows) if rows else (_UNMEASURED,)


def _both(half: Figure | None, most: Figure | None) -> str:
    return f"{number(half.median)} / {number(most.median)}" if half and most else "–"


def _others(results: Results) -> Iterable[str]:
    """What has no target and is in no other table, of ours and the yardsticks."""
    elsewhere = {(axis, name) for _, axis, name in COLUMNS} | {("workflows", each.name) for each in CASES}
    elsewhere |= {("relay", rate_case(destination, ordered)) for destination in RATES for ordered in (False, True)}
    rows = [
        (figure.axis, _whose(figure) + figure.name, _value(figure), str(len(figure.values)))
        for figure in results.figures
        if figure.system in (OURS, *YARDSTICKS)
        and not figure.target
        and not (figure.system == OURS and (figure.axis, figure.case) in elsewhere)
        and not re.fullmatch(r"(snapshot|xid)\.q\d|(pace|burst)\..*", figure.case)
    ]
    return _table(("axis", "what", "median (spread)", "values"), rows)


def _settings(results: Results) -> Iterable[str]:
    for system, words in results.settings.items():
        yield f"- **{system}**: {words}"
    if not results.settings:
        yield "No peers in this run."


def _plots(results: Results) -> Iterable[str]:
    titles = {f"{plot.name}.svg": plot.title for plot in plots.PLOTS}
    for name in plots.draw(results):
        yield f"![{titles[name]}](plots/{name})"
        yield ""


PARTS: dict[str, Callable[[Results], Iterable[str]]] = {
    "conditions": _conditions, "targets": _targets, "peers": _peers, "pinned": _pinned, "others": _others,
    "settings": _settings, "plots": _plots, "paces": _paces, "bursts": _bursts,
    "workflows": _workflows, "relay": _relay,
}  # fmt: skip


def render(page: str, results: Results) -> str:
    """Return the page with everything between its marks generated again."""

    def made(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in PARTS:
            raise SystemExit(f"<!-- bench: {name} -->: expected one of {', '.join(PARTS)}")
        return match[1] + "\n".join(PARTS[name](results)).rstrip("\n") + "\n" + match[3]

    return _PLACE.sub(made, page)


def files(figures: Path) -> dict[Path, str]:
    """Return the expected content of the page and the plots for these figures."""
    results = Results.read(figures)
    for apart in sorted(figures.parent.glob(f"{figures.stem}-*.json")):
        results.take(Results.read(apart))
    page = figures.with_name("performance.md")
    drawn = {figures.parent / "plots" / name: text for name, text in plots.draw(results).items()}
    return {page: render(page.read_text(encoding="utf-8"), results), **drawn}


def stale(figures: Path) -> list[Path]:
    """Return the page and the plots that differ from these figures, and plots that do not belong to them."""
    wanted = files(figures)
    left = set((figures.parent / "plots").glob("*.svg")) - wanted.keys()
    differ = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    return [*differ, *sorted(left)]


def _value(figure: Figure) -> str:
    return f"{figure.shown} {figure.spread}".rstrip()


def _whose(figure: Figure) -> str:
    return "" if figure.system == OURS else f"{figure.system}: "


def _verdict(figure: Figure) -> str:
    return "met" if figure.verdict == "met" else f"**{figure.verdict.lower()}**"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(row)} |"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.document",
        description="Make the tables and plots of the performance.md beside FILE from the figures in it.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the file that `python -m bench --json` has written")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if something is not up to date"
    )
    arguments = parser.parse_args()
    changed = stale(arguments.file)
    if arguments.check:
        for path in changed:
            print(f"{path} does not match {arguments.file}; run python -m bench.document {arguments.file}")
        return 1 if changed else 0
    wanted = files(arguments.file)
    for path in changed:
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
