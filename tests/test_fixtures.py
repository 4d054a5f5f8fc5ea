"""The fixtures that all other tests stand on."""

import os
import re
import secrets
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psycopg

from tests.support.databases import Server, wants_old_postgres
from tests.support.pooler import database_at, direct, wants_pooler


async def test_a_database_of_ones_own(database_url: str) -> None:
    connection = await asyncpg.connect(direct(database_url))
    try:
        assert await connection.fetchval("select count(*) from pg_stat_user_tables") == 0
        assert await connection.fetchval("show server_encoding") == "UTF8"
    finally:
        await connection.close()


def test_databases_are_copied_from_a_template(postgres: Server) -> None:
    prepared = []

    def prepare(url: str) -> None:
        prepared.append(url)
        with psycopg.connect(direct(url)) as connection:
            connection.execute("create table marker as select 42 as n")

    for _ in range(2):
        with (
            postgres.database(postgres.template("test_fixtures", prepare)) as url,
            psycopg.connect(direct(url)) as connection,
        ):
            assert connection.execute("select n from marker").fetchone() == (42,)
    assert len(prepared) == 1


def test_the_server_is_the_one_asked_for(postgres: Server) -> None:
    if wants_old_postgres():
        assert postgres.embedded is not None
        assert postgres.embedded.version.startswith("14.")


def test_a_role_that_may_not_create_databases_is_told_so(database_url: str) -> None:
    role = f"small_{secrets.token_hex(4)}"
    with psycopg.connect(direct(database_url), autocommit=True) as connection:
        connection.execute(f"create role {role} login password 'x'")
        place = urlsplit(direct(database_url)).netloc.rpartition("@")[2]
        url = urlunsplit(urlsplit(direct(database_url))._replace(netloc=f"{role}:x@{place}"))
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", __file__],
                cwd=Path(__file__).parents[1],
                env={**os.environ, "HOLDFAST_DATABASE_URL": url, "HOLDFAST_TEST_POSTGRES": ""},
                capture_output=True,
                text=True,
            )
        finally:
            connection.execute(f"drop role {role}")
    assert done.returncode == 4, "a usage error"
    assert f"alter role {role} createdb" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_the_library_goes_through_the_pooler_that_was_asked_for(database_url: str) -> None:
    assert database_at(database_url).pooler == wants_pooler()
    assert (direct(database_url) != database_url) == wants_pooler()


def test_what_tests_ask_for_themselves_goes_to_the_server() -> None:
    """A pooler would break their sessions now and then, and only in the run through one: rather always, and here."""
    careless = re.compile(r"\b(?:(?:psycopg|asyncpg|Connection)\.(?:connect|create_pool)|(?<!\w)Database)\(\w*url\b")
    tests = Path(__file__).parent
    for file in tests.rglob("*.py"):
        if file.parent.name not in ("embedded", "support", "db", "toy"):
            found = careless.search(file.read_text(encoding="utf-8"))
            assert found is None, f"{file.relative_to(tests)}: {found[0]}: say direct(url) or database_at(url)"
