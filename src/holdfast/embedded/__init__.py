"""A throw-away Postgres server for the demo, the tests and the benchmarks.

::

    with EmbeddedPostgres(settings={"shared_buffers": "256MB"}) as server:
        connect(server.url)

The server comes from any folder of Postgres binaries (``binaries``), runs as a user other than root
(``account``), and keeps its data in a private temporary folder. Its parent is not this process but the reaper, a
small process in a separate session (``reaper`` is our end of its pipe, ``reaper_process`` its program)::

    this process ──a pipe──▶ reaper process ──▶ initdb, then postgres
         │                       │
         └ ends, even by SIGKILL └ sees the pipe close: stops the server, waits, removes the folder

What holds:

* Durability is on: ``fsync`` and ``synchronous_commit`` are left alone, so a test that kills the server means
  something.
* A password is made for every server; neighbours on the machine cannot log in, over TCP or over the socket.
* No permission of any folder is changed but of those made here. When the unprivileged account cannot read the
  binaries, it is given a copy that lives and dies with the server.
* Ctrl-C in the terminal reaches this process only. When it ends, however it ends, no process, no folder and
  no shared memory stay behind.

When things fail, :class:`EmbeddedPostgresError` says what was expected, what came, and what to do; if the
server spoke, the end of its log is part of the message. The room uses nothing but the standard library.
"""

from holdfast.embedded.errors import EmbeddedPostgresError
from holdfast.embedded.server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError"]
