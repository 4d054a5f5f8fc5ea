"""Error groups: failed attempts that are alike get the same group, so that a thousand dead letters are one line.

Alike are the same kind of job, the same exception, raised at the same place of the application, with the same message
when what is in quotes, numbers and ids are left out.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache, lru_cache
from pathlib import Path
from types import TracebackType

MOST_MESSAGE = 300
"""Characters of the message that count."""

_VARIES = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|0x[0-9a-fA-F]+|[0-9a-fA-F]*[0-9][0-9a-fA-F]*(?:-[0-9a-fA-F]{4,})*""")
"""What is in quotes, and numbers: decimal ones, and hexadecimal ones with a digit among them, and ids."""


def group_of(kind: str, error: str, place: str, message: str) -> str:
    """The group: 16 hexadecimal digits."""
    said = _VARIES.sub("…", message[:MOST_MESSAGE])
    text = f"{kind}\n{error}\n{place}\n{said}"
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def place_of(error: BaseException) -> str:
    """Where it was raised: the innermost frame of the application, as 'module:function'. Without one, the innermost.

    Without the line: it changes with every edit above it.
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # as a task group raises it
    own = last = None
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        last = trace.tb_frame
        if _is_own(last.f_code.co_filename):
            own = last
        trace = trace.tb_next
    frame = own or last
    return f"{frame.f_globals.get('__name__', '?')}:{frame.f_code.co_qualname}"[:200] if frame is not None else ""


@lru_cache(maxsize=4096)
def _is_own(filename: str) -> bool:
    return not filename.startswith("<") and not any(part in filename for part in _foreign())


@cache
def _foreign() -> tuple[str, ...]:
    """Parts of the paths of code that is not the application's."""
    import sysconfig  # slow to import; most processes meet no error

    return (
        *{f"{Path(sysconfig.get_path(name))}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")},
        f"{Path(__file__).resolve().parents[1]}/",
        "/site-packages/",
        "/dist-packages/",
    )
