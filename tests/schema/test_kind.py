"""The kind of a row is a plain column: those who do not write it still get it."""

import psycopg
import pytest
from tests.support.pooler import direct

from holdfast.db.statements import statement
from holdfast.inbox.copying import ALWAYS


def test_a_row_that_comes_without_its_kind_gets_that_of_its_payload(migrated_url: str) -> None:
    with psycopg.connect(direct(migrated_url)) as connection:
        rows = connection.execute("""
            insert into holdfast.inbox (partition_key, partition_bucket, payload)
            values ('k', 1, '{"type": "a"}'), ('k', 1, '{"type": "b", "n": 1}'), ('k', 1, '{}')
            returning kind
        """).fetchall()
        assert [row[0] for row in rows] == ["a", "b", None]
        with connection.cursor().copy(
            "copy holdfast.inbox (partition_key, partition_bucket, payload) from stdin"
        ) as to:
            to.write_row(("k", 1, '{"type": "copied"}'))
        assert connection.execute("select kind from holdfast.inbox order by seq desc limit 1").fetchone() == ("copied",)


def test_a_payload_that_is_changed_by_hand_changes_the_kind(migrated_url: str) -> None:
    with psycopg.connect(direct(migrated_url)) as connection:
        connection.execute(
            "insert into holdfast.inbox (partition_key, partition_bucket, payload) values ('k', 1, '{\"type\": \"a\"}')"
        )

        def change(what: str) -> object:
            row = connection.execute(f"update holdfast.inbox set {what} returning kind".encode()).fetchone()
            return row and row[0]

        assert change('payload = \'{"type": "a", "n": 1}\'') == "a"
        assert change('payload = payload || \'{"type": "b"}\'') == "b"
        assert change("attempts = 1") == "b"
        assert change("kind = 'c', payload = '{\"type\": \"d\"}'") == "c", "what is written is what counts"


@pytest.mark.parametrize("way", ["enqueue", "enqueue_many"])
def test_our_own_statements_write_it(way: str) -> None:
    """Or every enqueue would pay for the trigger."""
    columns = statement("inbox", way, "holdfast").partition("insert into")[2].partition(")")[0]
    assert "kind" in columns
    assert "kind" in ALWAYS


def test_producers_of_the_release_before_can_enqueue(migrated_url: str) -> None:
    text = """
        insert into "holdfast".inbox (
            id, partition_key, partition_bucket, payload, queue, priority, available_at, max_attempts, payload_version,
            headers, ordered, skips, owned)
        select gen_random_uuid(), 'k', 1, '{"type": "older"}'::text::jsonb, 'default', 1, clock_timestamp(), 5, 1, null,
            false, false, false
        returning kind
    """
    with psycopg.connect(direct(migrated_url)) as connection:
        assert connection.execute(text.encode()).fetchone() == ("older",)
