"""A private Postgres server: disposable for the demo, the tests and the benchmarks, kept for `holdfast dev`.

::

    with EmbeddedPostgres(settings={"shared_buffers": "256MB"}) as server:
        connect(server.url)

The server comes from any folder of Postgres binaries (``binaries``), runs as a user other than root
(``account``), and has its data in a private temporary folder (``cluster``), or in a folder that stays (``kept``). Its
parent is not this process but the reaper, a small process in a separate session (``reaper`` is our end of its pipe,
``reaper_process`` its program)::

    this process ──a pipe──▶ reaper process ──▶ initdb, then postgres
         │                       │
         └ ends, even by SIGKILL └ sees the pipe close: stops the server, waits, removes the folder

What holds:

* Durability is on: ``fsync`` and ``synchronous_commit`` keep their defaults, so that tests that kill the server
  are meaningful.
* Every server has its own password; other users of the machine cannot log in, over TCP or over the socket.
* Only folders that were created here change their permissions. If the unprivileged account cannot read the
  binaries, it gets a copy that is removed with the server.
* Ctrl-C in the terminal reaches this process only. However this process ends, no process, no folder and no shared
  memory remain. Of a kept server, the folder remains; its lock allows one owner at a time.

On failure, :class:`EmbeddedPostgresError` says what was expected, what happened, and what to do. If the server
wrote a log, the end of it is part of the message. This package uses only the standard library.
"""

from holdfast.embedded.errors import EmbeddedPostgresError
from holdfast.embedded.server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError"]
