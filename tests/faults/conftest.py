"""Fixtures for the tests that kill things."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.workers import Fleet, running_fleet


@pytest.fixture
def fleet(migrated_url: str, tmp_path: Path) -> Iterator[Fleet]:
    """Workers on a migrated database with short backoffs and a plain table `effects`."""
    with running_fleet(migrated_url, tmp_path) as fleet:
        fleet.inbox.prepare()
        yield fleet
