"""How many steps an instance has, and how many instances run at a time."""

from __future__ import annotations

from dataclasses import dataclass

from ..figures import Target, at_least


@dataclass(frozen=True, slots=True)
class Case:
    steps: int
    """0: a job that is no workflow."""
    flight: int
    goal: Target | None = None
    """Of the ratio to the bare drain."""

    @property
    def name(self) -> str:
        return f"steps.{self.steps}.c{self.flight}" if self.steps else f"bare.c{self.flight}"

    @property
    def words(self) -> str:
        what = f"{self.steps} no-op step{'s' * (self.steps > 1)}" if self.steps else "no-op jobs"
        return f"{what}, {self.flight} in flight"

    def __str__(self) -> str:
        return self.words


BARE = Case(0, 100)
CASES = (
    Case(1, 20),
    Case(1, 100, at_least(0.5, fails=0.25)),
    Case(5, 20),
    Case(5, 100, at_least(0.2, fails=0.1)),
)
