"""With what codes our processes end, and what they mean to whoever started them."""

from __future__ import annotations

import errno

CONFIGURATION = 78
"""Starting again would not help."""
ORPHANED = 70
"""The process that started it is gone."""
SHORT = 75
"""Something was short that may be there later, such as memory."""
_SHORTAGES = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}


def is_shortage(error: BaseException) -> bool:
    """Is it about memory, process slots or open files? Then it may pass, and says nothing about the application."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _SHORTAGES)
