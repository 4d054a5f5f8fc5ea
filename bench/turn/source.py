"""Which holdfast this is: the one that BENCH_SOURCE names, or none."""

from __future__ import annotations

import os
from pathlib import Path

import holdfast

VARIABLE = "BENCH_SOURCE"


class WrongSource(Exception):
    """Another holdfast was imported than the one to be measured."""


def check() -> None:
    """Refuse another holdfast than the one that was meant, if one was."""
    wanted = os.environ.get(VARIABLE)
    found = Path(holdfast.__file__).resolve()
    if wanted and not found.is_relative_to(Path(wanted).resolve()):
        raise WrongSource(f"holdfast was to be imported from {wanted}, and came from {found.parents[1]}")
