"""A RabbitMQ server: Debian's rabbitmq-server, as a node of its own and without epmd.

Erlang starts epmd, a daemon that outlives the node and listens on every address. A node that is told the port of its
own distribution needs none (`-start_epmd false -erl_epmd_port`). The service of the Debian package is neither needed
nor disturbed: name, ports, cookie, settings and data are all in the folder of this broker.
"""

import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from holdfast.embedded.cluster import free_port
from tests.support.brokers import Broker, program

DIRECT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""Debian's program on PATH is a wrapper that changes to the user rabbitmq, and that only root may call."""
LARGEST = 1 << 20
"""Bytes of the largest message that it takes."""


class RabbitServer(Broker):
    """A node takes about five seconds to start: it is started by the first test that asks for it."""

    def __init__(self) -> None:
        found = program("rabbitmq-server", "Debian: apt install rabbitmq-server")
        self._program = str(DIRECT) if DIRECT.exists() else found
        super().__init__("rabbitmq")
        self._distribution = free_port()
        self._node = f"holdfast-{self.port}@localhost"
        (self.folder / "plugins").write_text("[].\n")
        # Terms of Erlang: the translation of a rabbitmq.conf takes a second of the start.
        (self.folder / "advanced.config").write_text(
            f'[{{rabbit, [{{tcp_listeners, [{{"127.0.0.1", {self.port}}}]}}, '
            f"{{max_message_size, {LARGEST}}}, {{disk_free_limit, 1000000}}]}}].\n"
        )

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def command(self) -> Sequence[str]:
        folder = self.folder
        beam = (
            f"-noinput -sname {self._node} {self._without_epmd()} -kernel inet_dist_use_interface {{127,0,0,1}} +S 2:2"
        )
        return [
            *self._environment(), f"RABBITMQ_NODENAME={self._node}", f"RABBITMQ_MNESIA_BASE={folder}/data",
            f"RABBITMQ_LOG_BASE={folder}", "RABBITMQ_LOGS=-", f"RABBITMQ_CONFIG_FILE={folder}/none",
            f"RABBITMQ_ADVANCED_CONFIG_FILE={folder}/advanced.config", "RABBITMQ_CONF_ENV_FILE=/dev/null",
            f"RABBITMQ_ENABLED_PLUGINS_FILE={folder}/plugins", f"RABBITMQ_PID_FILE={folder}/pid",
            # With this, the script becomes the node, rather than a shell that waits for it.
            "RABBITMQ_ALLOW_INPUT=1", f"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS={beam}", self._program,
        ]  # fmt: skip

    def answers(self) -> bool:
        """It takes connections before it takes logins."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"AMQP\x00\x00\x09\x01")
                return connection.recv(1) == b"\x01"  # a method: connection.start
        except OSError:
            return False

    def set_alarm(self, on: bool) -> None:
        """Raise or clear the alarm about disk space: while it is on, connections that publish are blocked."""
        limit = 10**15 if on else 10**6
        call = f"ok = erpc:call('{self._node}', rabbit_disk_monitor, set_disk_free_limit, [{limit}]), halt()."
        subprocess.run(
            [
                *self._environment(), "erl", "-noinput", "-hidden", "-sname", f"caller-{os.getpid()}@localhost",
                "-dist_listen", "false", *self._without_epmd().split(), "-eval", call,
            ],
            check=True, timeout=60, capture_output=True,
        )  # fmt: skip

    def _environment(self) -> list[str]:
        """Nothing of ours: variables of RabbitMQ and Erlang would change the node. The cookie is in HOME."""
        path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/bin", "/sbin", "/bin"])
        return ["/usr/bin/env", "-i", f"PATH={path}", f"HOME={self.folder}", "LANG=C.UTF-8"]

    def _without_epmd(self) -> str:
        return f"-start_epmd false -erl_epmd_port {self._distribution}"


@pytest.fixture(scope="session")
def rabbitmq_of_session() -> Iterator[RabbitServer]:
    server = RabbitServer()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def rabbitmq_server(rabbitmq_of_session: RabbitServer) -> Iterator[RabbitServer]:
    """A running RabbitMQ server."""
    rabbitmq_of_session.heal()
    yield rabbitmq_of_session
    if rabbitmq_of_session.pid is not None:
        rabbitmq_of_session.thaw()  # one that was killed is started when the next test needs it
