"""Which files have changed: found by looking at all of them, which works everywhere and needs no package."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})
Stamp = tuple[int, int]


class Watch:
    """The Python files below some folders. Hidden folders and virtual environments are left out."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = [folder.absolute() for folder in folders]
        self._seen = dict(self._look())

    def changed(self) -> list[Path]:
        """Return the files that are new, gone or different since the last call."""
        now = dict(self._look())
        found = [Path(path) for path in now.keys() | self._seen.keys() if now.get(path) != self._seen.get(path)]
        self._seen = now
        return sorted(found)

    def _look(self) -> Iterator[tuple[str, Stamp]]:
        for folder in self._folders:
            yield from _files(str(folder))


def _files(folder: str) -> Iterator[tuple[str, Stamp]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return  # it was removed a moment ago, or is not ours to read
    if any(entry.name == "pyvenv.cfg" for entry in entries):
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and entry.name not in SKIPPED:
                    yield from _files(entry.path)
            elif entry.name.endswith(".py"):
                status = entry.stat()
                yield entry.path, (status.st_mtime_ns, status.st_size)
        except OSError:
            continue
