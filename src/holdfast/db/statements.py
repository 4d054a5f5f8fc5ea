"""Statements live in .sql files beside the module that runs them, one each, written for the default schema."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def statement(room: str, name: str, schema: str) -> str:
    """The statement of `room/name.sql`, without its header, for the given schema."""
    text = files("holdfast").joinpath(room, f"{name}.sql").read_text(encoding="utf-8")
    return in_schema("\n".join(line for line in text.splitlines() if not line.startswith("--")), schema)


def in_schema(text: str, schema: str) -> str:
    """Put the schema's name, already checked to be a plain identifier, in place of the default one.

    Quoted, because a plain identifier may still be a word of SQL, such as `order`.
    """
    return text if schema == "holdfast" else text.replace("holdfast.", f'"{schema}".')
