"""A server whose data stay."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.support.waiting import wait_until

from holdfast.embedded import EmbeddedPostgres, EmbeddedPostgresError
from holdfast.embedded.processes import is_alive

OWNER = """
import sys, time
from holdfast.embedded import EmbeddedPostgres

server = EmbeddedPostgres(keep=sys.argv[1])
server.start()
print(server.pid, server._cluster.reaper._process.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that every user can enter: as root, Postgres runs as another one."""
    made = Path(tempfile.mkdtemp(prefix="holdfast-kept-"))
    made.chmod(0o755)
    yield made / "postgres"
    shutil.rmtree(made)


def test_the_data_stay(folder: Path) -> None:
    with EmbeddedPostgres(keep=folder) as server:
        first = server.url
        with psycopg.connect(first, autocommit=True) as connection:
            connection.execute("create table kept (n int)")
        with pytest.raises(EmbeddedPostgresError, match=f"is in use by process {os.getpid()}"):
            EmbeddedPostgres(keep=folder).start()
    with EmbeddedPostgres(keep=folder) as server:
        assert server.url == first
        with psycopg.connect(server.url) as connection:
            assert connection.execute("select count(*) from kept").fetchone() == (0,)
        assert "was interrupted" not in server.log(), "it was stopped in order"
    (folder / "data" / "PG_VERSION").write_text("9\n")
    with pytest.raises(EmbeddedPostgresError, match="were made by Postgres 9, but"):
        EmbeddedPostgres(keep=folder).start()


def test_an_interrupted_creation_begins_again(folder: Path) -> None:
    (folder / "data.new").mkdir(parents=True)
    (folder / "data.new" / "PG_VERSION").write_text("half\n")
    with EmbeddedPostgres(keep=folder) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)


@pytest.mark.parametrize("reaper_too", [False, True])
def test_an_owner_that_is_killed(folder: Path, reaper_too: bool) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    postmaster, reaper = map(int, owner.stdout.readline().split())
    if reaper_too:
        os.kill(reaper, signal.SIGKILL)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    if not reaper_too:
        wait_until(lambda: not is_alive(postmaster), 60)
    with EmbeddedPostgres(keep=folder) as server, psycopg.connect(server.url) as connection:
        assert not is_alive(postmaster), "one that was left behind is stopped first"
        assert connection.execute("select 1").fetchone() == (1,)
