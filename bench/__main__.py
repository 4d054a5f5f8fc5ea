from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

from holdfast.worker.loading import loop_factory

from . import (
    archive,
    backlog,
    ceiling,
    claim_backlog,
    drain,
    enqueue,
    fleet,
    handlers,
    memory,
    mixed,
    ordered,
    peers,
    pickup,
    pickup_busy,
    pinned,
    ring,
    verdicts,
    wake,
    wal,
)
from .figures import Results
from .ground import Ground, ground

Axis = Callable[[Ground, Results, bool], Awaitable[None]]

AXES: dict[str, tuple[Axis, str]] = {
    "drain": (drain.run, "`holdfast worker -c 20` on a full queue: rate, memory, CPU and WAL per job"),
    "ceiling": (ceiling.run, "the same statements from pgbench, without Python, and our share of that"),
    "wal": (wal.run, "WAL of claim and completion, with the archive's row aside"),
    "memory": (memory.run, "of a worker process, over a million jobs"),
    "enqueue": (enqueue.run, "one job per commit against a bare INSERT, many per statement, COPY"),
    "mixed": (mixed.run, "enqueue and drain at once"),
    "pickup": (pickup.run, "from the call of enqueue to the start of the handler, on an idle worker"),
    "pickup_busy": (pickup_busy.run, "the same for urgent jobs while the worker is busy"),
    "claim_backlog": (claim_backlog.run, "one claim, as the backlog grows and as rows that cannot run stand in front"),
    "backlog": (backlog.run, "the first 10,000 jobs of a short queue and of a million"),
    "pinned": (pinned.run, "a drain by quarters while somebody's open transaction pins the xmin horizon"),
    "archive": (archive.run, "a drain beside an empty archive and beside five million rows"),
    "processes": (fleet.run, "1, 2, 4 and 8 worker processes, no-op jobs and handlers that wait"),
    "handlers": (handlers.run, "handlers of 0, 1 and 50 ms, of each kind"),
    "ordered": (ordered.run, "ordered jobs against free ones, and beside many that are blocked"),
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
    results = Results("full" if arguments.full else "reduced")
    if results.load > BUSY:
        print(f"This machine is busy (load average {results.load:.1f}): figures will be low, and targets missed.")
    interrupted = False
    # Also when it was started in the background, where Ctrl-C is ignored, and when a supervisor ends it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        ours = [] if arguments.only_peers else arguments.names or list(AXES)
        # The producers' event loop is the one that workers have, and the peers' drivers.
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_run(ours, arguments.full, results, arguments.json, arguments.peers))
    except KeyboardInterrupt:
        interrupted = True
    if not results.figures:
        return 130 if interrupted else 1
    verdicts.compare(results)
    _write(results, arguments.json)
    print(f"\n{results.table()}\n\nwritten to {arguments.json} and {arguments.json.with_suffix('.txt')}")
    if interrupted:
        print("interrupted: what was not measured is missing above")
        return 130
    return 1 if results.missed or results.failures else 0


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
    parser.add_argument("names", nargs="*", metavar="AXIS", help="which to run; all but the last by default")
    parser.add_argument("--full", action="store_true", help="the full sizes: 40 minutes, with all peers 75")
    parser.add_argument(
        "--json", type=Path, default=Path("build/bench.json"), metavar="FILE", help="where the figures go (%(default)s)"
    )
    parser.add_argument(
        "--peers",
        type=_peers,
        default=(),
        metavar="all|A,B",
        help=f"others of its kind beside it: {', '.join(peers.NAMES)}",
    )
    parser.add_argument("--only-peers", action="store_true", help="leave out our own axes")
    return parser


def _peers(text: str) -> tuple[str, ...]:
    names = peers.NAMES if text == "all" else tuple(text.split(","))
    if unknown := set(names) - set(peers.NAMES):
        raise argparse.ArgumentTypeError(f"there is no {', '.join(unknown)}; there are {', '.join(peers.NAMES)}")
    return names


async def _run(names: list[str], full: bool, results: Results, path: Path, beside: tuple[str, ...]) -> None:
    async with ground() as place:
        results.server = place.version
        for number, name in enumerate(names, 1):
            began = time.monotonic()
            axis, words = KNOWN[name]
            print(f"{name} ({number} of {len(names)}): {words}", flush=True)
            try:
                await axis(place, results, full)
            except Exception as error:
                # The others are worth having; it counts as missed.
                traceback.print_exc()
                results.failures[name] = f"{type(error).__name__}: {error}"
            print(f"    {time.monotonic() - began:.0f} s", flush=True)
            _write(results, path)
        if beside:
            print(f"peers: {', '.join(beside)}", flush=True)
            await peers.run(place, results, full, beside)


def _write(results: Results, path: Path) -> None:
    results.write(path)
    path.with_suffix(".txt").write_text(results.table() + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
