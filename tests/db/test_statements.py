"""Statements, and the parts that they share."""

import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import psycopg
import pytest
from tests.support.pooler import direct

from holdfast.db.statements import _read, statement

SOURCE = Path(str(files("holdfast")))
HOW_IT_ENDED = {"status", "cancel_requested_at", "last_error", "result", "finished_at", "keep_days", "steps"}
"""What whoever moves a row to the archive says itself."""


NOT_CLAIMED = {
    "attempts": "case when id = head then attempts else attempts + 1 end",
    "claimed_by": "$7",
    "claimed_at": "coalesce(claimed_at, holdfast.clock() - make_interval(secs => took))",
    "lease_generation": "generation",
    "fence": "drawn",
}
"""What end_convoys.sql stores of a row that was sent behind a claimed one: as if it had been claimed, too."""

MOVERS: dict[str, Callable[[str], str]] = {
    "schema/functions/end_children.sql": lambda column: f"e.{column}",
    "inbox/end_convoys.sql": lambda column: NOT_CLAIMED.get(column, column),
}
"""Those that list the columns themselves, and what they store in each. The others use the part `archived_columns`, or
copy all columns that have the same name."""


def test_parts_are_put_in_their_places_without_their_headers() -> None:
    text = statement("inbox", "complete", "other")
    assert "{{" not in text and "--" not in text
    assert '"other".archive (id, seq, ' in " ".join(text.split())


def test_every_column_of_the_archive_is_filled(migrated_url: str) -> None:
    """One that is added and forgotten would be null for every ended job."""
    kept = set(kept_columns())
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


def kept_columns() -> list[str]:
    return [name.strip() for name in _read("db/parts", "archived_columns").split(",")]


@pytest.mark.parametrize("file", MOVERS)
def test_who_lists_the_columns_of_the_archive_lists_them_all(file: str) -> None:
    """One that is forgotten would be null for jobs that end there, or hold the value of another."""
    text = (SOURCE / file).read_text(encoding="utf-8")
    text = " ".join(re.sub("--.*", "", text).replace("{{archived_columns}}", ", ".join(kept_columns())).split())
    found = re.search(r"insert into holdfast\.archive \((.+?)\) select (.+?) from ended", text)
    assert found is not None
    stored = dict(zip(split(found[1]), split(found[2]), strict=True))
    wanted = {column: MOVERS[file](column) for column in kept_columns()}
    assert {column: stored.get(column) for column in wanted} == wanted, f"in {file}, as db/parts/archived_columns.sql"
    assert stored.keys() - wanted.keys() <= HOW_IT_ENDED


def split(values: str) -> list[str]:
    """The values of a list, whose commas may also be inside parentheses."""
    found, depth = [""], 0
    for character in values:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            found.append("")
        else:
            found[-1] += character
    return [value.strip() for value in found]


def test_nobody_else_lists_them() -> None:
    texts = {
        str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8")
        for path in SOURCE.rglob("*.sql")
        if "migrations" not in path.parts
    }
    moving = {file: text for file, text in texts.items() if "into holdfast.archive" in text}
    by_name = {file for file, text in moving.items() if "jsonb_populate_record" in text}
    by_part = {file for file, text in moving.items() if text.count("{{archived_columns}}") == 2}
    assert moving.keys() - by_name - by_part == MOVERS.keys()
