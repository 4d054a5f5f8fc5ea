"""What the processes of a worker have in common: they end with the process that started them, and log alike."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys

CONFIGURATION = 78
"""Exit code: starting again would not help."""
ORPHANED = 70
LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s %(message)s"
_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Ask the kernel to end this process with its parent, and check that it was not too late to ask."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(ORPHANED)


def log_to_stderr(level: str | int) -> None:
    logging.basicConfig(level=level, format=LOG_FORMAT)
