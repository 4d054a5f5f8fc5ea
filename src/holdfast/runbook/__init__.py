"""The runbook: one query per symptom, for the engineer on call.

Each query is a file, NAME.sql. Its header says what it shows and what to do. `holdfast runbook NAME` runs it, and
docs/runbook/NAME.md shows the same text with more about it, so that it can be pasted into psql. Queries only read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Entry:
    """A query of the runbook."""

    name: str
    title: str
    """What it shows."""
    hint: str
    """What to do about what it shows."""
    query: str


@cache
def entries() -> dict[str, Entry]:
    """All queries by name, in the order of their names."""
    folder = files("holdfast").joinpath("runbook")
    names = sorted(file.name.removesuffix(".sql") for file in folder.iterdir() if file.name.endswith(".sql"))
    return {name: _entry(name, folder.joinpath(f"{name}.sql").read_text(encoding="utf-8")) for name in names}


def _entry(name: str, text: str) -> Entry:
    lines = text.splitlines()
    header = [line.removeprefix("--").strip() for line in lines if line.startswith("--")]
    query = "\n".join(line for line in lines if not line.startswith("--"))
    return Entry(name, header[0], " ".join(header[1:]), query)
