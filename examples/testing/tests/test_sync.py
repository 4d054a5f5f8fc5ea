"""Sync tests."""

from collections.abc import Iterator

import psycopg
import pytest
from shop import hf, order, remind, sent

from holdfast.testing import assert_enqueued_sync, assert_not_enqueued_sync, drain_sync, frozen_clock, use_database


@pytest.fixture(autouse=True)
def here(holdfast_clean: str) -> Iterator[None]:
    with use_database(hf, holdfast_clean):
        yield


def test_a_reminder_is_enqueued_with_the_order(holdfast_clean: str) -> None:
    with psycopg.connect(holdfast_clean) as connection:
        order(connection, 9)
        assert_enqueued_sync(remind, on=connection, order_id=9, delay="3d", count=1)
        connection.rollback()
    assert_not_enqueued_sync(remind)


def test_the_reminder_comes_after_three_days(holdfast_clean: str) -> None:
    with frozen_clock(hf) as clock:
        with psycopg.connect(holdfast_clean) as connection:
            order(connection, 9)
        assert len(drain_sync(hf)) == 0
        clock.advance_sync("3d")
        assert len(drain_sync(hf)) == 1
    assert sent == ["reminder for 9"]


def test_an_error_is_raised_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", "postgresql://127.0.0.1:1/nothing")
    remind.enqueue_sync(1)
    with pytest.raises(psycopg.OperationalError):
        drain_sync(hf)
