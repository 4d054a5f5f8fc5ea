from collections.abc import Iterator

import pytest
from tests.dashboard.filling import fill, fill_rest
from tests.dashboard.serving import dashboard
from tests.support.workers import Inbox


@pytest.fixture
def filled(inbox: Inbox) -> Inbox:
    """An installation with something on every page."""
    fill(inbox)
    fill_rest(inbox.url)
    return inbox


@pytest.fixture
def address(filled: Inbox) -> Iterator[str]:
    """A dashboard of that, which asks nobody who they are."""
    with dashboard(filled.url, user="ann@web-1") as found:
        yield found
