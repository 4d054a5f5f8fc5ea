from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

from . import claim_backlog, drain, enqueue, ordered, peers, pickup, pinned, ring, wake
from .figures import Results
from .ground import ground

AXES = {
    "claim_backlog": claim_backlog,
    "pinned": pinned,
    "drain": drain,
    "enqueue": enqueue,
    "ordered": ordered,
    "pickup": pickup,
    "ring": ring,
    "wake": wake,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Holdfast on this machine.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run, of {', '.join(AXES)}; all by default")
    parser.add_argument("--full", action="store_true", help="the full sizes, for which the targets are stated")
    parser.add_argument(
        "--json", type=Path, default=Path("build/bench.json"), metavar="FILE", help="where the figures go"
    )
    parser.add_argument("--peers", type=_peers, default=(), metavar="all|A,B", help=f"of {', '.join(peers.NAMES)}")
    parser.add_argument("--only-peers", action="store_true", help="leave out our own axes")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - AXES.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(AXES)}")
    results = Results("full" if arguments.full else "reduced")
    ours = [] if arguments.only_peers else arguments.names or list(AXES)
    asyncio.run(_run(ours, arguments.full, results, arguments.peers))
    results.write(arguments.json)
    readable = arguments.json.with_suffix(".txt")
    readable.write_text(results.table() + "\n")
    print(f"\n{results.table()}\n\nwritten to {arguments.json} and {readable}")
    return 1 if results.missed else 0


def _peers(text: str) -> tuple[str, ...]:
    names = peers.NAMES if text == "all" else tuple(text.split(","))
    if unknown := set(names) - set(peers.NAMES):
        raise argparse.ArgumentTypeError(f"there is no {', '.join(unknown)}; there are {', '.join(peers.NAMES)}")
    return names


async def _run(names: list[str], full: bool, results: Results, beside: tuple[str, ...]) -> None:
    async with ground() as place:
        results.server = place.version
        for name in names:
            began = time.monotonic()
            print(name, flush=True)
            await AXES[name].run(place, results, full)
            print(f"    {time.monotonic() - began:.0f} s", flush=True)
        if beside:
            print("peers", flush=True)
            await peers.run(place, results, full, beside)


if __name__ == "__main__":
    sys.exit(main())
