from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

from . import claim_backlog, drain, enqueue, ordered, pickup, pinned, ring, wake
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
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - AXES.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(AXES)}")
    results = Results("full" if arguments.full else "reduced")
    asyncio.run(_run(arguments.names or list(AXES), arguments.full, results))
    results.write(arguments.json)
    readable = arguments.json.with_suffix(".txt")
    readable.write_text(results.table() + "\n")
    print(f"\n{results.table()}\n\nwritten to {arguments.json} and {readable}")
    return 1 if results.missed else 0


async def _run(names: list[str], full: bool, results: Results) -> None:
    async with ground() as place:
        results.server = place.version
        for name in names:
            began = time.monotonic()
            print(name, flush=True)
            await AXES[name].run(place, results, full)
            print(f"    {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
