"""The fixtures that all other tests stand on."""

import asyncpg
import psycopg

from tests.support.databases import Server, wants_old_postgres
from tests.support.pooler import direct


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
