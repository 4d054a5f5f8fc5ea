"""Errors of the server, as the log has them: in one line each."""

import asyncpg
import pytest

from holdfast import ConfigurationError, Contended, Unreachable
from holdfast.db.database import Database
from holdfast.db.link import translate

DETAIL = "Process 1 waits for ShareLock.\nProcess 2 waits for ShareLock."


@pytest.mark.parametrize(
    ("kind", "known_as"), [(asyncpg.DeadlockDetectedError, Contended), (asyncpg.AdminShutdownError, Unreachable)]
)
def test_a_detail_stays_on_the_line(kind: type[asyncpg.PostgresError], known_as: type[Exception]) -> None:
    error = kind("it went wrong")
    error.detail, error.hint = DETAIL, "See the server's log."
    assert str(error).count("\n") == 3
    translated = translate(error)
    assert isinstance(translated, known_as)
    assert str(translated) == (
        f"{kind.__name__}: it went wrong DETAIL: Process 1 waits for ShareLock. Process 2 waits for ShareLock. "
        "HINT: See the server's log."
    )


def test_so_does_a_refusal() -> None:
    error = asyncpg.InvalidCatalogNameError('database "shop" does not exist')
    error.detail = "It seems to have just been dropped\nor renamed."
    refusal = Database("postgresql://me@localhost/shop").refusal(error)
    assert isinstance(refusal, ConfigurationError)
    assert "\n" not in str(refusal)
