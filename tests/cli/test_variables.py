"""Each flag has a HOLDFAST_* twin; the address comes from the environment only."""

import os
from urllib.parse import unquote, urlsplit

from tests.cli.conftest import Shell


def test_flags_from_variables(shell: Shell) -> None:
    for _ in range(3):
        shell.enqueue(queue="mail")
    assert len(shell("job", "list", HOLDFAST_JOB_LIST_LIMIT="2", HOLDFAST_JSON="1").json) == 2
    assert shell("job", "list", HOLDFAST_JOB_LIST_QUEUE="other", HOLDFAST_JSON="1").json == []
    shell("enqueue", "greet", HOLDFAST_ENQUEUE_QUEUE="night", HOLDFAST_ENQUEUE_MAX_ATTEMPTS="9")
    assert shell.sql("select max_attempts from holdfast.inbox where queue = 'night'") == [{"max_attempts": 9}]
    assert shell("health", HOLDFAST_HEALTH_NO_WORKERS="1").code == 0
    assert shell("queue", "pause", "mail", HOLDFAST_QUEUE_PAUSE_YES="1").code == 0


def test_a_flag_wins_over_its_variable(shell: Shell) -> None:
    shell.enqueue()
    assert len(shell("job", "list", "--limit", "5", "--json", HOLDFAST_JOB_LIST_LIMIT="0").json) == 1
    refused = shell("job", "list", HOLDFAST_JOB_LIST_LIMIT="0")
    assert refused.code == 2
    assert "0 is not in the range" in refused.err


def test_where_the_address_comes_from(shell: Shell) -> None:
    url, shell.url = shell.url, None
    assert url is not None
    assert shell("stats", DATABASE_URL=url).code == 0
    assert shell("stats", DATABASE_URL="mysql://x/y", HOLDFAST_DATABASE_URL=url).code == 0
    assert shell("stats", DATABASE_URL=url.replace("postgresql://", "postgresql+psycopg://")).code == 0
    parts = urlsplit(url)
    libpq = {
        "PGHOST": parts.hostname or os.environ.get("PGHOST", ""),
        "PGPORT": str(parts.port or 5432),
        "PGUSER": unquote(parts.username or ""),
        "PGPASSWORD": unquote(parts.password or ""),
        "PGDATABASE": parts.path.lstrip("/"),
    }
    assert shell("stats", **{name: value for name, value in libpq.items() if value}).code == 0
