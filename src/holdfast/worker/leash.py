"""What the processes of a worker have in common: how they start, that they end with the process that started them, and
that they log alike."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import signal
import sys

CONFIGURATION = 78
"""Exit code: starting again would not help."""
ORPHANED = 70
SHORT = 75
"""Exit code: something was short that may be there later, such as memory."""
_SHORTAGES = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
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


def is_shortage(error: BaseException) -> bool:
    """Is it about memory, process slots or open files? Then it may pass, and says nothing about the application."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _SHORTAGES)
