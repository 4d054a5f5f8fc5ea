"""End a process together with its parent, even when no Python code can run."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from .exit_codes import ORPHANED

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends, and exit if that has already happened."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(ORPHANED)
