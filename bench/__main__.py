from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

from holdfast.loading import loop_factory

from . import (
    archive,
    backlog,
    ceiling,
    claim_backlog,
    drain,
    enqueue,
    fleet,
    handlers,
    keep,
    memory,
    metrics,
    mixed,
    operate,
    ordered,
    peers,
    pickup,
    pickup_busy,
    pinned,
    recovery,
    ring,
    verdicts,
    wake,
    wal,
)
from .compare import contest, sides
from .compare.report import Report
from .figures import Results, machine
from .ground import Ground, ground
from .peers import race
from .relay import axis as relay
from .turn.cases import AXES as AXES_IN_TURNS
from .workflows import axis as workflows

Axis = Callable[[Ground, Results, bool], Awaitable[None]]

AXES: dict[str, tuple[Axis, str]] = {
    "drain": (drain.run, "`holdfast worker -c 20` on a full queue: rate, memory, CPU and WAL per job"),
    "keep": (keep.run, "a drain with keep=None, in turns with the archived one and with Graphile Worker"),
    "ceiling": (ceiling.run, "the same statements from pgbench, without Python, and our share of that"),
    "wal": (wal.run, "WAL of claim and completion, with the archive's row aside"),
    "memory": (memory.run, "of a worker process, over a million jobs"),
    "enqueue": (enqueue.run, "one job per commit against a bare INSERT, many per statement, COPY"),
    "mixed": (mixed.run, "enqueue and drain at once"),
    "pickup": (pickup.run, "from enqueue to the handler: an idle worker, paces of 2 ms to 1 s, bursts over a fleet"),
    "pickup_busy": (pickup_busy.run, "the same for urgent jobs while the worker is busy"),
    "claim_backlog": (claim_backlog.run, "one claim, as the backlog grows and as rows that cannot run stand in front"),
    "backlog": (backlog.run, "the first 10,000 jobs of a short queue and of a million"),
    "pinned": (pinned.run, "a drain by quarters while somebody's open transaction pins the xmin horizon"),
    "archive": (archive.run, "a drain beside an empty archive and beside five million rows"),
    "processes": (fleet.run, "1, 2, 4 and 8 worker processes, no-op jobs and handlers that wait"),
    "handlers": (handlers.run, "handlers of 0, 1 and 50 ms, of each kind"),
    "ordered": (ordered.run, "ordered jobs against free ones, and beside many that are blocked"),
    "relay": (relay.run, "events to NATS, RabbitMQ, Redis and webhooks, confirmed; the lag; an outage of the broker"),
    "workflows": (workflows.run, "instances with 1 and 5 steps, beside DBOS and Absurd; sleepers, replay, fan-in"),
    "metrics": (metrics.run, "a drain with the numbers and a scraper, in turns with one that counts nothing"),
    "operate": (operate.run, "the questions of operators, the gauges and a scrape, beside many live and archived rows"),
    "recovery": (recovery.run, "for how long a killed or stopped process, or a lost host, keeps jobs waiting"),
    "ring": (ring.run, "how even the shares of owned buckets are, and what moves when a worker joins"),
    "wake": (wake.run, "what the test `does somebody sleep?` costs producers"),
}
BY_HAND: dict[str, tuple[Axis, str]] = {
    "backlog_10m": (backlog.run_deep, "backlog up to ten million; only when named (10 GB of disk)"),
}
KNOWN = AXES | BY_HAND
BUSY = 0.5
"""Load average from which we warn."""


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - KNOWN.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(KNOWN)}")
    # Also if it was started in the background, where Ctrl-C is ignored, and if a supervisor ends it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    if arguments.against is None:
        return _measure(arguments)
    if arguments.full or arguments.peers or arguments.only_peers:
        parser.error("--against compares two commits at a size of its own, without peers")
    try:
        return _compare(arguments)
    except (sides.NoSuchCommit, contest.Incomparable) as why:
        parser.error(str(why))


def _measure(arguments: argparse.Namespace) -> int:
    results = Results("full" if arguments.full else "reduced", beside=arguments.peers)
    path = arguments.json or Path("build/bench.json")
    if results.load > BUSY:
        print(f"This machine is busy (load average {results.load:.1f}): expect low figures and missed targets.")
    interrupted = False
    try:
        ours = [] if arguments.only_peers else arguments.names or list(AXES)
        # The producers' event loop is the one that workers have, and the peers' drivers.
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_run(ours, arguments.names, arguments.full, results, path))
    except KeyboardInterrupt:
        interrupted = True
    if not results.figures:
        return 130 if interrupted else 1
    verdicts.compare(results)
    _write(results, path)
    print(f"\n{results.table()}\n\nwritten to {path} and {path.with_suffix('.txt')}")
    if interrupted:
        print("interrupted: the table shows only what was measured")
        return 130
    return 1 if results.missed or results.failures else 0


def _compare(arguments: argparse.Namespace) -> int:
    cases = contest.cases_of(arguments.names)
    path = arguments.json or Path("build/compare.json")
    interrupted = False
    with sides.sides(arguments.against) as (this, other):
        report = Report(this.name, other.name)
        print(f"{this.words} against {other.words}: {arguments.turns} pairs of turns: {', '.join(cases)}", flush=True)
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(_contest(this, other, cases, arguments.turns, report))
        except KeyboardInterrupt:
            interrupted = True
    if report.lines or report.failures:
        report.write(path)
        print(f"\n{report.table()}\n\nwritten to {path}")
    if interrupted:
        print("interrupted: only complete pairs of turns count")
        return 130
    return 1 if report.failed else 0


async def _contest(this: sides.Side, other: sides.Side, cases: list[str], turns: int, report: Report) -> None:
    load = os.getloadavg()[0]
    async with ground() as place:
        report.conditions = f"{this.words} ÷ {other.words}\n{machine(place.version, load)}"
        await contest.run(place, this, other, cases, turns, report)


def _parser() -> argparse.ArgumentParser:
    axes = "\n".join(f"  {name:14}  {words}" for name, (_, words) in KNOWN.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Measure Holdfast on this machine: print a table, write JSON, exit with 1 if a target is missed.",
        epilog=f"axes:\n{axes}\n\n"
        "An embedded Postgres is used, or the server that HOLDFAST_DATABASE_URL names, in databases of our own.\n"
        "Ctrl-C cleans up and keeps what was measured so far. The targets are stated for the full sizes and a machine\n"
        "that does nothing else. `python -m bench.document FILE` makes the tables and plots of docs/performance.md.",
    )
    parser.add_argument("names", nargs="*", metavar="AXIS", help="the axes to run; by default, all except the last")
    parser.add_argument("--full", action="store_true", help="full sizes: 50 minutes, or 110 with all peers")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="the file for the figures (build/bench.json or build/compare.json)"
    )
    parser.add_argument(
        "--peers",
        type=_peers,
        default=(),
        metavar="all|A,B",
        help=f"also run these other job queues, in the named axes if any: {', '.join(peers.NAMES)}",
    )
    parser.add_argument(
        "--against",
        metavar="COMMIT",
        help=f"compare this tree with a commit, in turns: {', '.join(AXES_IN_TURNS)}; exit with 1 on a regression",
    )
    parser.add_argument("--turns", type=_turns, default=15, metavar="N", help="pairs of turns for that (%(default)s)")
    parser.add_argument("--only-peers", action="store_true", help="run only the peers' axes")
    return parser


def _turns(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of turns, got {text!r}")
    return int(text)


def _peers(text: str) -> tuple[str, ...]:
    names = peers.NAMES if text == "all" else tuple(text.split(","))
    if unknown := set(names) - set(peers.NAMES):
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; expected some of {', '.join(peers.NAMES)}")
    return names


async def _run(ours: list[str], named: list[str], full: bool, results: Results, path: Path) -> None:
    async with ground() as place:
        results.server = place.version
        for number, name in enumerate(ours, 1):
            began = time.monotonic()
            axis, words = KNOWN[name]
            print(f"{name} ({number} of {len(ours)}): {words}", flush=True)
            try:
                await axis(place, results, full)
            except Exception as error:
                # The other axes are still useful; this one counts as missed.
                traceback.print_exc()
                results.failures[name] = f"{type(error).__name__}: {error}"
            print(f"    {time.monotonic() - began:.0f} s", flush=True)
            _write(results, path)
        if results.beside:
            print(f"peers: {', '.join(results.beside)}", flush=True)
            await race.run(place, results, full, named)


def _write(results: Results, path: Path) -> None:
    results.write(path)
    path.with_suffix(".txt").write_text(results.table() + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
