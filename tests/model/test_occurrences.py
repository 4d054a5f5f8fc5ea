"""Occurrences reach those who subscribed, and nobody else pays."""

from collections.abc import Sequence
from uuid import uuid4

import pytest

from holdfast.model.job import Claim, Hold, Holding
from holdfast.model.occurrences import Occurrences, Subscriber

NAMES = [name for name in vars(Subscriber) if not name.startswith("_")]


class Listener(Subscriber):
    def __init__(self) -> None:
        self.heard: list[object] = []

    def claimed(self, claims: Sequence[Claim]) -> None:
        self.heard.append(len(claims))

    def lease_lost(self, held: Holding) -> None:
        self.heard.append(held)


def test_each_subscriber_hears_what_it_asked_for() -> None:
    one, two = Listener(), Listener()
    occurrences = Occurrences(one, Subscriber(), two)
    hold = Hold("w1", uuid4(), 1)
    for tell in occurrences.claimed:
        tell([])
    for tell_lost in occurrences.lease_lost:
        tell_lost(hold)
    assert one.heard == two.heard == [0, hold]


@pytest.mark.parametrize("name", NAMES)
def test_without_a_subscriber_there_is_nobody_to_tell(name: str) -> None:
    assert getattr(Occurrences(), name) == ()
    assert len(getattr(Occurrences(Subscriber(), Listener()), name)) == (name in ("claimed", "lease_lost"))
