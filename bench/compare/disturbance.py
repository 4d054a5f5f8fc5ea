"""How much of this machine others had. On a shared host, other guests get the cores now and then."""

from __future__ import annotations

from pathlib import Path

MOST = 0.05
"""Share of all CPU time. A pair of turns in which others had more is measured again."""
_STAT = Path("/proc/stat")
_STOLEN = 7
"""Which of the numbers is the time that others had; see proc(5)."""


class Disturbance:
    """Since it was made: the share of the CPU time that others had. 0 where the kernel does not tell."""

    def __init__(self) -> None:
        self._before = _times()

    @property
    def share(self) -> float:
        since = [after - before for before, after in zip(self._before, _times(), strict=True)]
        return since[_STOLEN] / total if (total := sum(since)) > 0 else 0.0


def _times() -> list[int]:
    """User, nice, system, idle, waiting, interrupts, soft interrupts, stolen; guests are part of the first two."""
    try:
        return [int(number) for number in _STAT.read_text().split("\n", 1)[0].split()[1:9]]
    except OSError:  # not Linux
        return [0] * 8
