"""The functions in the schema: one file with the current body of each.

They are not migrations. The runner installs every body that differs from the installed one, together with the last
migration, so that version and bodies change in one commit. If a function cannot be replaced, because a parameter was
renamed or added, its file drops it first, in the same commit, so that producers find one or the other at any moment.
Workers of older releases call these functions, too: what a function takes and returns may change only with a migration
that is not marked compatible.

Names in them do not depend on the caller's search_path. On that, a function power(int, int) that another role made in
"public" is a better match for power(2, 30) than the server's own power(float8, float8), and would run with the caller's
rights. So the functions in plpgsql set their search_path. Functions in SQL could not be inlined with one; their bodies
are expressions instead (`return …`), which are resolved once, when they are installed.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

import msgspec

from ...db.statements import in_schema

_CALL = re.compile(r"\bholdfast\.(\w+)\(")


class Function(msgspec.Struct, frozen=True):
    name: str
    text: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def title(self) -> str:
        return f"function {self.name}"


@cache
def functions(schema: str = "holdfast") -> tuple[Function, ...]:
    """All functions, each one after those that it calls."""
    texts = {
        file.name.removesuffix(".sql"): file.read_text(encoding="utf-8")
        for file in Path(__file__).parent.iterdir()
        if file.name.endswith(".sql")
    }
    called = {name: {other for other in _CALL.findall(text) if other in texts} - {name} for name, text in texts.items()}
    from graphlib import TopologicalSorter  # only a migration needs it

    order = TopologicalSorter({name: sorted(called[name]) for name in sorted(texts)}).static_order()
    return tuple(Function(name, in_schema(texts[name], schema)) for name in order)
