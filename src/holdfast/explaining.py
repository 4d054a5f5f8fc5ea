"""Why a job does not run: read the facts in one trip, and let `model.explaining` say what they mean."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import asyncpg

from .db.database import Database
from .db.runner import Runner
from .errors import SchemaError
from .model import explaining
from .model.explanation import Explanation
from .model.facts import COUNTED
from .model.limits import check_text
from .schema import migrate
from .views.explaining import facts


async def explain(runner: Runner, database: Database, id: UUID | str) -> Explanation:
    """Explain one job, or one workflow instance."""
    asked = str(id) if isinstance(id, UUID) else check_text("id", id)
    ours = migrate.newest()
    job = id if isinstance(id, UUID) else None
    try:
        rows = await runner.run("views", "explain", job, asked, ours, COUNTED)
    except (SchemaError, asyncpg.UndefinedColumnError):
        # The statement reads what only newer schemas have.
        found = await migrate.version(database)
        if found >= ours:
            raise
        reason = explaining.schema_older(database.schema, found, ours)
        return Explanation(asked, job, datetime.now(UTC), (reason,))
    return explaining.explain(facts([dict(row) for row in rows], asked, database.schema, ours))
