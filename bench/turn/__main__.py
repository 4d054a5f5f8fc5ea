from __future__ import annotations

import asyncio
import signal
import sys

from . import source
from .cases import CASES
from .measured import write
from .place import Place


def main() -> int:
    name, size = sys.argv[1:]
    source.check()
    # As Ctrl-C: workers are stopped and files removed, whoever ends it.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        measured = runner.run(CASES[name](Place.here(size)))
    print(write(measured), flush=True)
    return 0


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    """The event loop that workers have, and the peers' drivers."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
