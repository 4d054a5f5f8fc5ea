"""Housekeepers."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.support.pooler import database_at
from tests.support.workers import Inbox

from holdfast.housekeeping import loop
from holdfast.housekeeping.loop import Housekeeper

AT_ONCE = 0.001
"""An interval that has always passed."""
HOUR = 3600.0

Keep = Callable[..., Housekeeper]


@pytest.fixture
async def keep(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Keep]:
    """Makes housekeepers: each at once, and without a grace period unless told otherwise.

    A round ends what there is, however long a busy machine takes for it.
    """
    monkeypatch.setattr(loop, "SLICE", 60.0)
    made = []

    def make(interval: float = AT_ONCE, grace: float = 0, *rest: Any, **more: Any) -> Housekeeper:
        made.append(Housekeeper(more.pop("database", None) or database_at(inbox.url), interval, grace, *rest, **more))
        return made[-1]

    yield make
    for house in made:
        house._drop()


@pytest.fixture
def house(keep: Keep) -> Housekeeper:
    return keep()
