"""Questions to the database, on a connection that is kept between them.

A new connection costs the client and the server 4 to 8 ms of CPU, and tests that wait for a fact ask a hundred times a
second: with a connection for each question, the waiting took more of the machine than what was waited for.
"""

import select
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.rows import DictRow, dict_row

from tests.support.pooler import direct


class Questions:
    """Asks one database. A question that is asked while another one waits for its answer gets its own connection."""

    def __init__(self) -> None:
        self._idle: list[psycopg.Connection[DictRow]] = []

    def ask(self, url: str, statement: str, arguments: Sequence[Any] | None = None) -> list[dict[str, Any]]:
        connection = self._connection(url)
        try:
            cursor = connection.execute(statement.encode(), arguments)
            rows = cursor.fetchall() if cursor.description else []
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return rows

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    __del__ = close

    def _connection(self, url: str) -> psycopg.Connection[DictRow]:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:  # without prepared statements: tests change tables
                return psycopg.connect(direct(url), autocommit=True, row_factory=dict_row, prepare_threshold=None)
            if not _has_ended(connection):
                return connection
            connection.close()


def _has_ended(connection: psycopg.Connection[DictRow]) -> bool:
    """Did the server end this session? What it says unasked, and the end of the stream, wait to be read."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
