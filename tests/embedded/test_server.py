"""A server's life: up, honouring settings, restarted, crashed and back with what was committed."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine, text
from tests.support.processes import processes_mentioning
from tests.support.stopwatch import Stopwatch

from holdfast.embedded import EmbeddedPostgres, EmbeddedPostgresError


@pytest.fixture
def server() -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(settings={"shared_buffers": "16MB", "work_mem": "3MB"}) as server:
        yield server


def ask(server: EmbeddedPostgres, question: str) -> object:
    with psycopg.connect(server.url) as connection:
        row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return row[0]


def test_is_up_soon_and_leaves_nothing() -> None:
    watch = Stopwatch()
    with EmbeddedPostgres() as server:
        up_after = watch.taken()
        folder = server.data_folder.parent
        assert ask(server, "select 1") == 1
        assert folder.exists()
    assert up_after.own < 15, f"about half a second on an idle machine: {up_after}"
    assert not folder.exists()
    assert processes_mentioning(folder) == []


def test_honours_settings_and_keeps_durability(server: EmbeddedPostgres) -> None:
    assert ask(server, "show work_mem") == "3MB"
    assert ask(server, "show fsync") == "on"
    assert ask(server, "show synchronous_commit") == "on"
    assert str(ask(server, "show server_version")).startswith(server.version)


def test_address_suits_every_driver(server: EmbeddedPostgres) -> None:
    async def by_asyncpg() -> object:
        connection = await asyncpg.connect(server.url)
        try:
            return await connection.fetchval("select 1")
        finally:
            await connection.close()

    assert asyncio.run(by_asyncpg()) == 1
    engine = create_engine(server.url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        assert connection.execute(text("select 1")).scalar() == 1
    engine.dispose()


def test_listens_on_a_socket_and_asks_for_the_password_everywhere(server: EmbeddedPostgres) -> None:
    place = {"port": server.port, "user": "postgres", "dbname": "postgres"}
    for host in (str(server.socket_folder), "127.0.0.1"):
        with psycopg.connect(host=host, password=server.password, **place) as connection:  # type: ignore[arg-type]
            assert connection.info.backend_pid
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(host=host, password="guess", **place)  # type: ignore[arg-type]


def test_does_not_show_the_password(server: EmbeddedPostgres) -> None:
    assert server.password not in repr(server)
    assert not (server.data_folder.parent / "password").exists()


def test_keeps_data_and_address_over_restart_and_crash(server: EmbeddedPostgres) -> None:
    address = server.url
    with psycopg.connect(address) as connection:
        connection.execute("create table kept as select 1 as n")
    server.restart()
    assert ask(server, "select count(*) from kept") == 1
    with psycopg.connect(address) as witness:
        witness.execute("insert into kept values (2)")
        witness.commit()
        witness.execute("insert into kept values (3)")
        server.kill()
        assert server.pid is None
        with pytest.raises(psycopg.OperationalError):
            witness.execute("select 1")
    server.start()
    assert server.url == address
    assert ask(server, "select array_agg(n order by n) from kept") == [1, 2]
    server.stop()
    server.start()
    assert ask(server, "select count(*) from kept") == 2


def test_killed_and_closed_leaves_no_shared_memory() -> None:
    with EmbeddedPostgres() as server:
        folder = server.data_folder.parent
        notes = (server.data_folder / "postmaster.pid").read_text().splitlines()
        segment = notes[6].split()[1]
        server.kill()
    assert not folder.exists()
    assert processes_mentioning(folder) == []
    table = Path("/proc/sysvipc/shm")
    if table.exists():
        assert segment not in [line.split()[1] for line in table.read_text().splitlines()]


def test_two_at_once_are_strangers() -> None:
    with EmbeddedPostgres() as one, EmbeddedPostgres() as other:
        assert one.port != other.port
        assert one.password != other.password
        one.kill()
        assert ask(other, "select 1") == 1


def test_bad_setting_is_told_with_the_servers_own_words() -> None:
    with pytest.raises(EmbeddedPostgresError, match=r'(?s)ended with code 1.*unrecognized.*"no_such_setting"'):
        EmbeddedPostgres(settings={"no_such_setting": "1"}).start()


def test_settings_it_must_choose_itself_are_refused() -> None:
    with pytest.raises(EmbeddedPostgresError, match="sets port itself"):
        EmbeddedPostgres(settings={"port": 5432})


def test_not_started_says_so() -> None:
    with pytest.raises(EmbeddedPostgresError, match="not started"):
        _ = EmbeddedPostgres().url
