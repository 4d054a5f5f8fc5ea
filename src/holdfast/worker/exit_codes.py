"""Exit codes of our processes, and what they mean to the process that started them."""

from __future__ import annotations

import errno

CONFIGURATION = 78
"""A restart would not help."""
ORPHANED = 70
"""The process that started it is gone."""
SHORT = 75
"""A resource was missing that may be available later, such as memory."""
_SHORTAGES = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}


def is_shortage(error: BaseException) -> bool:
    """Is it about memory, process slots or open files? Then it is temporary, and no fault of the application."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _SHORTAGES)
