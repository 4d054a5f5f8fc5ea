"""The two sides: this tree's source as it is now, and another commit's, each in a folder with this tree's benchmarks.

This tree is copied, too, so that a change during the run changes nothing, and both are found in the same way. Source is
found by PYTHONPATH, which comes before an installed package; `bench.turn.source` makes sure of it.
"""

from __future__ import annotations

import compileall
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..turn import source

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"


class NoSuchCommit(Exception):
    """What to compare with cannot be found, in one sentence."""


@dataclass(frozen=True, slots=True)
class Side:
    name: str
    """Short, for the table."""
    words: str
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """For processes that are to run its source."""
        path = self.folder / "src"
        return {**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{self.folder}", source.VARIABLE: str(path)}


@contextmanager
def sides(commit: str) -> Iterator[tuple[Side, Side]]:
    """This and the other; the folders are gone at the end."""
    other = _resolve(commit)
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="against-", dir=BUILD) as folder:
        this_side = Side("this", f"this tree ({_described()})", Path(folder) / "this")
        other_side = Side(other[:7], f"{_subject(other)}", Path(folder) / "other")
        _copy(ROOT / "src", this_side.folder / "src")
        _unpack(other, other_side.folder)
        for side in (this_side, other_side):
            _copy(ROOT / "bench", side.folder / "bench")
            compileall.compile_dir(side.folder, quiet=1)
        yield this_side, other_side


def _resolve(commit: str) -> str:
    try:
        return _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    except (OSError, subprocess.CalledProcessError):
        raise NoSuchCommit(f"There is no commit {commit!r} in the repository of {ROOT.name}.") from None


def _described() -> str:
    changed = " with changes" if _git("status", "--porcelain", "--", "src") else ""
    return _git("rev-parse", "--short=7", "HEAD") + changed


def _subject(commit: str) -> str:
    return _git("show", "--no-patch", "--format=%h %s", "--abbrev=7", commit)


def _unpack(commit: str, folder: Path) -> None:
    """Its source; `git archive` leaves nothing to be tidied in the repository."""
    folder.mkdir()
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")


def _copy(tree: Path, to: Path) -> None:
    shutil.copytree(tree, to, ignore=shutil.ignore_patterns("__pycache__"))


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()
