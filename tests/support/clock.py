"""Time that passes at once, for workers of other processes, too.

`holdfast.testing.frozen_clock` is for one application, and stands still. Here the clock of the installation goes on, so
that workers renew and send heartbeats; it is only so much later than it was.
"""

import psycopg

from holdfast.testing.clock import _replaced
from tests.support.pooler import direct


def let_pass(url: str, seconds: float) -> None:
    """Let the clock of the installation be so many seconds ahead of the server's, counted from the server's."""
    with psycopg.connect(direct(url)) as connection:
        for statement in _replaced("holdfast"):
            connection.execute(statement.encode())
        connection.execute(
            "create or replace function holdfast.clock() returns timestamptz language sql stable parallel safe "
            f"return statement_timestamp() + make_interval(secs => {float(seconds)})".encode()
        )
