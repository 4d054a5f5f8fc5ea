"""Hold ours against the peers of the same run: the ratios for which targets are stated."""

from __future__ import annotations

from dataclasses import dataclass

from .figures import Results, Target, at_least, at_most
from .paces import BURSTS, PACES
from .workflows.cases import CASES


@dataclass(frozen=True, slots=True)
class Comparison:
    axis: str
    case: str
    """Ours."""
    theirs: str
    target: Target
    only: str = ""
    """Against this peer; else against the best."""

    @property
    def name(self) -> str:
        return f"{self.case}.vs.{self.only or 'best'}"


LEVEL = at_most(1.05)
"""As quick as the best: within the noise of a quiet machine."""
_WAITS = (
    *(f"{pace.case}.p{share}" for pace in PACES for share in (50, 99)),
    *(f"{burst.case}.{which}.p50" for burst in BURSTS for which in ("each", "last")),
)
COMPARISONS = (
    Comparison("drain", "rate", "rate", at_least(1.2)),
    Comparison("drain", "rate", "rate", at_least(2.5), only="pgqueuer"),
    Comparison("enqueue", "bulk", "bulk", at_least(1.5)),
    Comparison("enqueue", "copy", "bulk", at_least(2)),
    Comparison("pinned", "snapshot.q4", "snapshot.q4", at_least(1.4)),
    Comparison("pinned", "xid.q4", "xid.q4", at_least(1.4)),
    *(Comparison("workflows", case.name, case.name, at_least(10)) for case in CASES),
    *(Comparison("pickup", case, case, LEVEL) for case in _WAITS),
)


def compare(results: Results) -> None:
    """Add what the peers that ran allow to say; nothing without peers."""
    for comparison in COMPARISONS:
        ours = results.find(comparison.axis, comparison.case)
        theirs = results.peers(comparison.axis, comparison.theirs)
        if comparison.only:
            theirs = [figure for figure in theirs if figure.system.lower() == comparison.only]
        if ours is None or not theirs:
            continue
        best = (max if comparison.target.at_least else min)(theirs, key=lambda figure: figure.median)
        who = best.system if comparison.only else f"the best peer, {best.system}"
        results.add(
            comparison.axis, f"{ours.name} ÷ {who}", "", [ours.median / best.median], comparison.target,
            case=comparison.name,
        )  # fmt: skip
