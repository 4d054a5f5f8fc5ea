"""Fixtures for all tests.

One server for the session, a fresh database for each test that asks for one, and what many rooms need on a migrated
one: sessions that run the library's statements, a look at the inbox from outside, an application, workers.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import hypothesis
import pytest

from holdfast import Holdfast
from holdfast.schema.migrate import migrate
from tests.support.brokers.kafka import kafka_cluster, kafka_of_session
from tests.support.brokers.nats import nats_of_session, nats_server
from tests.support.brokers.rabbitmq import rabbitmq_of_session, rabbitmq_server
from tests.support.brokers.redis import redis_of_session, redis_server
from tests.support.browser import chromium
from tests.support.databases import Server, running_server, unusable, wants_old_postgres
from tests.support.inbox import Session, session
from tests.support.no_skips import pytest_make_collect_report, pytest_runtest_makereport
from tests.support.pooler import database_at, wants_pooler
from tests.support.workers import Fleet, Inbox, running_fleet

__all__ = [
    "chromium",
    "kafka_cluster",
    "kafka_of_session",
    "nats_of_session",
    "nats_server",
    "pytest_make_collect_report",
    "pytest_runtest_makereport",
    "rabbitmq_of_session",
    "rabbitmq_server",
    "redis_of_session",
    "redis_server",
]


# An example of Hypothesis may take as long as a busy machine needs, and so may its making.
hypothesis.settings.register_profile(
    "busy machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy machine")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and (problem := unusable()) is not None:
        raise pytest.UsageError(problem)  # one plain sentence, before any process that runs tests is started
    # The tests start thousands of Python processes. Without compiled modules, each would compile all of Holdfast.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if wants_pooler():
        os.environ["HOLDFAST_POOLER"] = "1"  # for every application, in this process and in those it starts


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is about the other way to the server; when it is an old one, or behind a pooler, also what does
    not ask for it at all. Sort the rest for several processes."""
    other = "direct" if wants_pooler() else "pooled"
    special = wants_pooler() or wants_old_postgres()
    left_out = {item for item in items if item.get_closest_marker(other) or (special and not _asks(item))}
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = sorted((item for item in items if item not in left_out), key=_turn)


def _turn(item: pytest.Item) -> int:
    """What comes first. The first tests all go to one process, and others take from it what is at the end, so only that
    one starts RabbitMQ, which takes seconds. A slow test that came last would leave the other processes idle."""
    if "rabbitmq" in item.nodeid:
        return 0
    return 1 if item.get_closest_marker("slow") else 2


def _asks(item: pytest.Item) -> bool:
    """Does this test ask for a server? One that it starts by itself is a new one, with no pooler in front of it."""
    return not {"postgres", "own_postgres"}.isdisjoint(getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """The server of this session: embedded, or the one that HOLDFAST_DATABASE_URL names."""
    with running_server() as server:
        yield server


@pytest.fixture
def database_url(postgres: Server) -> Iterator[str]:
    """The address of an empty database of this test's own."""
    with postgres.database() as url:
        yield url


@pytest.fixture
def migrated_url(postgres: Server) -> Iterator[str]:
    """The address of a database of this test's own, migrated to this release."""
    with postgres.database(migrated(postgres)) as url:
        yield url


@pytest.fixture
def second_url(postgres: Server) -> Iterator[str]:
    """Another one, for tests of two services."""
    with postgres.database(migrated(postgres)) as url:
        yield url


def migrated(server: Server) -> str:
    """The template of migrated databases. Each day has its own: a migration makes the partitions of today, and ahead.

    A run that goes on past midnight would else have one day too few.
    """
    return server.template(f"migrated on {datetime.now(UTC):%Y-%m-%d}", _migrate)


def _migrate(url: str) -> None:
    asyncio.run(migrate(database_at(url)))


@pytest.fixture
async def one(migrated_url: str) -> AsyncIterator[Session]:
    """A session on the migrated database."""
    async with session(migrated_url, "one") as opened:
        yield opened


@pytest.fixture
async def two(migrated_url: str) -> AsyncIterator[Session]:
    """Another one on the same."""
    async with session(migrated_url, "two") as opened:
        yield opened


@pytest.fixture
def inbox(migrated_url: str) -> Inbox:
    """What the migrated database says; short backoffs and a plain table `effects`."""
    inbox = Inbox(migrated_url)
    inbox.prepare()
    return inbox


@pytest.fixture
async def hf(inbox: Inbox) -> AsyncIterator[Holdfast]:
    """An application on the same."""
    app = Holdfast(inbox.url)
    yield app
    await app.close()


@pytest.fixture
def fleet(inbox: Inbox, tmp_path: Path) -> Iterator[Fleet]:
    """Workers on the same, none of them started."""
    with running_fleet(inbox.url, tmp_path) as fleet:
        yield fleet
