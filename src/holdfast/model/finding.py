"""What a check of the doctor found, as a value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail", "unseen"]
"""ok: as it should be. warn: it will hurt if it continues. fail: it hurts now, or work can be lost. unseen: this role
may not see it, so it may be fine or not."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found.

    ```python
    for finding in await hf.doctor():
        if finding.level != "ok":
            print(finding.name, finding.sentence, finding.remedy)
    ```
    """

    name: str
    """The check, such as 'horizon'; docs/operating.md lists them."""
    level: Level
    """'ok', 'warn', 'fail' or 'unseen'."""
    sentence: str
    """What was found, in words."""
    figure: float | None = None
    """The number that decided, if there is one."""
    unit: str = ""
    """Its unit, such as 's', 'rows' or '%'."""
    remedy: str | None = None
    """What to do about it; None if nothing is to be done."""
    page: str | None = None
    """The page of the runbook about it, for `holdfast runbook`; docs/runbook has its text."""


def exit_code(findings: Iterable[Finding]) -> int:
    """Return 0 if all is well, 1 if something is to be looked at or could not be seen, 2 if something is wrong."""
    levels = {finding.level for finding in findings}
    if "fail" in levels:
        return 2
    return 1 if levels & {"warn", "unseen"} else 0
