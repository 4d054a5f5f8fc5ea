"""Statements, and the parts that they share."""

import psycopg
from tests.support.pooler import direct

from holdfast.db.statements import _read, statement

HOW_IT_ENDED = {"status", "cancel_requested_at", "last_error", "result", "finished_at", "keep_days", "steps"}
"""What whoever moves a row to the archive says itself."""


def test_parts_are_put_in_their_places_without_their_headers() -> None:
    text = statement("inbox", "complete", "other")
    assert "{{" not in text and "--" not in text
    assert '"other".archive (id, seq, ' in " ".join(text.split())


def test_every_column_of_the_archive_is_filled(migrated_url: str) -> None:
    """One that is added and forgotten would be null for every ended job."""
    kept = {name.strip() for name in _read("db/parts", "archived_columns").split(",")}
    with psycopg.connect(direct(migrated_url)) as connection:
        columns = {
            table: {
                name
                for (name,) in connection.execute(
                    "select column_name::text from information_schema.columns"
                    " where table_schema = 'holdfast' and table_name = %s",
                    [table],
                ).fetchall()
            }
            for table in ("inbox", "archive")
        }
    assert columns["archive"] == kept | HOW_IT_ENDED
    assert kept <= columns["inbox"]
