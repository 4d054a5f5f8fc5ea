"""Statements live in .sql files beside the module that runs them, one each, written for the default schema.

What several rooms' statements have in common stands in `db/parts/NAME.sql`, and in place of `{{NAME}}`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_PART = re.compile(r"\{\{(\w+)\}\}")


@cache
def statement(room: str, name: str, schema: str) -> str:
    """The statement of `room/name.sql`, without its header, for the given schema."""
    return in_schema(_PART.sub(lambda part: _read("db/parts", part[1]), _read(room, name)), schema)


def _read(folder: str, name: str) -> str:
    text = (_PACKAGE / folder / f"{name}.sql").read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


def in_schema(text: str, schema: str) -> str:
    """Put the schema's name, already checked to be a plain identifier, in place of the default one.

    Quoted, because a plain identifier may still be a word of SQL, such as `order`.
    """
    return text if schema == "holdfast" else text.replace("holdfast.", f'"{schema}".')
