"""The past of an instance while its code is replayed: what is recorded, what the code has asked for, what is left."""

from __future__ import annotations

from collections import deque
from time import perf_counter

from ..errors import HistoryMismatch
from ..model.flow import History, RecordedStep, Signal, StepKind, StepStatus

LONG = 1000
"""Recorded steps from which on an instance is worth a warning: every run replays them."""
TOO_LONG = 10_000
"""Recorded steps at which an instance is stopped."""

_UNDO, _PATCH, _CHILD = StepKind.UNDO.value, StepKind.PATCH.value, StepKind.CHILD.value
_OPEN = StepStatus.OPEN.value


class Branch:
    """One line of code within an instance: its main function, or a coroutine given to `gather`."""

    __slots__ = ("gathers", "last", "path", "refusals", "refuses", "runs")

    def __init__(self, path: tuple[int, ...], last: int = -1) -> None:
        self.path = path
        """Alternately a number of a gather, and a number within it: the same in every replay."""
        self.runs = False
        """Is its code being run at this moment? Else a call comes from another task."""
        self.last = last
        """The ordinal of what it asked for last."""
        self.gathers = 0
        self.refuses: str | None = None
        """Why it may not use the flow now."""
        self.refusals = 0

    @property
    def suffix(self) -> str:
        """Tells its recorded values apart from those of other branches."""
        return f"[{'.'.join(map(str, self.path))}]" if self.path else ""


class Past:
    """Finds recorded steps by name and number, and notices code that no longer matches them.

    A replayed line of code must find its steps in the order in which they began, and nothing new may begin before
    everything that is recorded has been found.
    """

    def __init__(self, history: History) -> None:
        self._steps: dict[tuple[str, int], RecordedStep] = {}
        self.undone: dict[tuple[str, int], RecordedStep] = {}
        """The steps that undo others, and the mark that the instance is being undone."""
        self.patches: set[str] = set()
        """Those that this instance takes. Code may stop asking for them, so they do not count as unvisited."""
        last = -1
        for step in history.steps:
            if step.kind == _UNDO:
                self.undone[step.name, step.n] = step
            elif step.kind == _PATCH:
                self.patches.add(step.name)
            else:
                self._steps[step.name, step.n] = step
            if step.ordinal > last:
                last = step.ordinal
        self._loaded = perf_counter()
        self.mail = history.mail
        self.paused = history.paused
        self.empty = not self._steps
        """Is nothing recorded that the code could ask for?"""
        self.unvisited = len(self._steps)
        """How many recorded steps the code has not asked for yet."""
        self.next_ordinal = last + 1
        self._asked: list[tuple[str, int, str]] = []
        self._signals: dict[str, deque[Signal]] = {}
        for signal in sorted(history.signals, key=lambda each: each.n):
            self._signals.setdefault(signal.name, deque()).append(signal)

    def find(self, name: str, n: int, kind: str, branch: Branch) -> RecordedStep | None:
        """The recorded step; None if it is new."""
        self._asked.append((name, n, kind))
        step = self._steps.get((name, n))
        if step is None:
            return None
        if step.kind != kind:
            raise self.mismatch(f"{shown(name, n)} is recorded as a {step.kind}, and this code asks for a {kind}")
        if step.ordinal < branch.last:
            raise self.mismatch(f"{shown(name, n)} was recorded before the step that this code asked for first")
        branch.last = step.ordinal
        self.unvisited -= 1
        return step

    @property
    def waits_for_children(self) -> bool:
        return any(step.kind == _CHILD and step.status == _OPEN for step in self._steps.values())

    def begin(self, branch: Branch) -> int:
        """The ordinal of a step that is new."""
        ordinal = branch.last = self.next_ordinal
        self.next_ordinal += 1
        return ordinal

    def age(self, step: RecordedStep) -> float:
        """Seconds since it began, if it has not ended."""
        return step.age + perf_counter() - self._loaded if step.age is not None else 0.0

    def take(self, names: tuple[str, ...]) -> Signal | None:
        """The oldest signal of these names that nothing has taken."""
        waiting = [unread for name in names if (unread := self._signals.get(name))]
        return min(waiting, key=_first).popleft() if waiting else None

    def is_unread(self, names: tuple[str, ...]) -> bool:
        """Is there a signal of these names that nothing has taken?"""
        return any(self._signals.get(name) for name in names)

    def left_over(self) -> HistoryMismatch:
        """The code is at its end, or at something new, and recorded steps were not asked for."""
        asked = {(name, n) for name, n, _ in self._asked}
        names = [shown(*key) for key in self._steps if key not in asked]
        some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return self.mismatch(f"recorded, and not asked for by this code: {some}")

    def mismatch(self, problem: str) -> HistoryMismatch:
        return HistoryMismatch(problem, self._diff())

    def _diff(self) -> str:
        """Both lists, side by side, from where they begin to differ."""
        recorded = [
            f"{shown(step.name, step.n)} ({step.kind})"
            for step in sorted(self._steps.values(), key=lambda s: s.ordinal)
        ]
        asked = [f"{shown(name, n)} ({kind})" for name, n, kind in self._asked]
        same = 0
        while same < min(len(recorded), len(asked)) and recorded[same] == asked[same]:
            same += 1
        width = max([len("recorded"), *map(len, recorded[same : same + 20])]) + 2
        lines = [f"{same} steps match, then:" if same else "", f"{'recorded':<{width}}this code"]
        for number in range(same, min(max(len(recorded), len(asked)), same + 20)):
            left = recorded[number] if number < len(recorded) else "-"
            right = asked[number] if number < len(asked) else "-"
            lines.append(f"{left:<{width}}{right}")
        return "\n".join(line for line in lines if line)


def _first(signals: deque[Signal]) -> int:
    return signals[0].n


def shown(name: str, n: int) -> str:
    """A step as people read it: the second and later ones of a name have a number."""
    return f"{name}#{n + 1}" if n else name
