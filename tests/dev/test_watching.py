"""Which files count as changed."""

import os
from pathlib import Path

from holdfast.dev.watching import Watch


def test_new_gone_and_different_files(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    one, two = tmp_path / "one.py", tmp_path / "shop" / "two.py"
    one.write_text("1")
    watch = Watch([tmp_path])
    assert watch.changed() == []
    two.write_text("2")
    assert watch.changed() == [two]
    assert watch.changed() == []
    os.utime(one, ns=(1, 1))
    two.unlink()
    assert watch.changed() == [one, two]


def test_what_is_not_looked_at(tmp_path: Path) -> None:
    watch = Watch([tmp_path])
    for name in (".git", "__pycache__", "node_modules", "env"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "module.py").write_text("1")
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    (tmp_path / "notes.txt").write_text("1")
    assert watch.changed() == []


def test_a_folder_that_is_gone_is_empty(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "one.py").write_text("1")
    watch = Watch([folder])
    (folder / "one.py").unlink()
    folder.rmdir()
    assert watch.changed() == [folder / "one.py"]
