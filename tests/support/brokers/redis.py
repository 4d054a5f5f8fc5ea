"""A Redis server that forgets nothing: Debian's redis-server, whose append-only file is synced at every write."""

import socket
from collections.abc import Iterator, Sequence

import pytest

from tests.support.brokers import Broker, program


class RedisServer(Broker):
    def __init__(self, **settings: str) -> None:
        self._program = program("redis-server", "Debian: apt install redis-server")
        super().__init__("redis")
        self._settings = {
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
            "proto-max-bulk-len": "2mb",
            **settings,
        }

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> Sequence[str]:
        given = [word for name, value in self._settings.items() for word in (f"--{name.replace('_', '-')}", value)]
        return [
            self._program, "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder),
            "--daemonize", "no", *given,
        ]  # fmt: skip

    def answers(self) -> bool:
        """It takes connections while it still loads its data."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False


@pytest.fixture(scope="session")
def redis_of_session() -> Iterator[RedisServer]:
    server = RedisServer()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def redis_server(redis_of_session: RedisServer) -> Iterator[RedisServer]:
    """A running Redis server."""
    redis_of_session.heal()
    yield redis_of_session
    redis_of_session.heal()
