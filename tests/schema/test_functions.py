"""Buckets and ids as the database makes them."""

import re
import time
from uuid import RFC_4122, UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.pure.test_identity import VECTORS
from tests.support.pooler import direct

from holdfast.model.keys import bucket
from holdfast.schema.functions import functions


def test_sql_and_python_agree_on_buckets(migrated_url: str) -> None:
    keys = [*VECTORS, *(f"order:{n}" for n in range(1000)), "x" * 512, "\U0010ffff", "é", "e\u0301"]
    with psycopg.connect(direct(migrated_url)) as connection:
        rows = connection.execute("select k, holdfast.bucket(k) from unnest(%s::text[]) k", [keys]).fetchall()
    assert dict(rows) == {key: bucket(key) for key in keys}
    assert {key: found for key, found in rows if key in VECTORS} == VECTORS


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
@given(keys=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=50))
def test_sql_and_python_agree_on_any_text(migrated_url: str, keys: list[str]) -> None:
    with psycopg.connect(direct(migrated_url)) as connection:
        rows = connection.execute("select k, holdfast.bucket(k) from unnest(%s::text[]) k", [keys]).fetchall()
    assert [found for _, found in rows] == [bucket(key) for key in keys]


def fallback() -> str:
    """The body that servers before PostgreSQL 18 get."""
    (uuidv7,) = (function for function in functions() if function.name == "uuidv7")
    found = re.search(r"return encode\(.*?::uuid;", uuidv7.text, re.DOTALL)
    assert found
    return found[0]


@pytest.mark.parametrize("made_by", ["this server", "the fallback"])
def test_ids_are_of_version_7_and_follow_the_time(migrated_url: str, made_by: str) -> None:
    with psycopg.connect(direct(migrated_url)) as connection:
        if made_by == "the fallback":
            connection.execute(
                f"create or replace function holdfast.uuidv7() returns uuid language sql volatile {fallback()}".encode()
            )
        before = time.time_ns() // 1_000_000
        rows = connection.execute("select holdfast.uuidv7() from generate_series(1, 2000)").fetchall()
        after = time.time_ns() // 1_000_000
    ids: list[UUID] = [row[0] for row in rows]
    assert len(set(ids)) == 2000
    assert {(id.version, id.variant) for id in ids} == {(7, RFC_4122)}
    times = [id.int >> 80 for id in ids]
    assert all(before - 2 <= moment <= after + 2 for moment in times)
    assert times == sorted(times)
    assert len({id.int & (1 << 62) - 1 for id in ids}) == 2000, "and random for the rest"


def test_the_backoff_is_safe_for_any_number_of_attempts(migrated_url: str) -> None:
    with psycopg.connect(direct(migrated_url)) as connection:
        rows = connection.execute(
            "select n, extract(epoch from holdfast.backoff(n))::float8 "
            "from unnest(array[-5, 0, 1, 2, 5, 11, 12, 1000, 2147483647]) n"
        ).fetchall()
    for attempts, seconds in rows:
        base = min(2 ** min(max(attempts, 0), 30), 3600)
        assert base <= seconds <= base * 1.25
