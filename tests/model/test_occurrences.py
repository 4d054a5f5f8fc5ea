"""Occurrences reach those who subscribed, and nobody else pays."""

from collections.abc import Sequence
from uuid import uuid4

import pytest

from holdfast.model.availability import Availability
from holdfast.model.job import Claim, Hold, Holding
from holdfast.model.occurrences import Occurrences, Outage, Part, Subscriber

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
    occurrences.claimed([])
    occurrences.lease_lost(hold)
    assert one.heard == two.heard == [0, hold]


@pytest.mark.parametrize("name", NAMES)
def test_without_a_subscriber_there_is_nobody_to_tell(name: str) -> None:
    listener = Listener()
    for occurrences in (Occurrences(), Occurrences(Subscriber(), Occurrences())):
        assert vars(occurrences) == {}  # each method is the empty one of Subscriber
    told = getattr(Occurrences(Subscriber(), listener), name)
    assert (told == getattr(listener, name)) == (name in ("claimed", "lease_lost"))


def test_occurrences_can_be_passed_on() -> None:
    listener = Listener()
    Occurrences(Occurrences(listener), Subscriber()).claimed([])
    assert listener.heard == [0]


class Outages(Subscriber):
    def __init__(self) -> None:
        self.heard: list[object] = []

    def unavailable(self, outage: Outage) -> None:
        self.heard.append((outage.part, outage.failures, outage.rows))

    def available(self, part: Part, failures: int, seconds: float) -> None:
        self.heard.append((part, failures, seconds >= 0))


def test_an_outage_is_reported_for_each_failure_and_once_at_its_end() -> None:
    outages = Outages()
    availability = Availability(Part.ENDINGS, Occurrences(outages))
    availability.succeeded()
    for rows in (3, 4):
        availability.failed(OSError("away"), rows)
    availability.succeeded()
    availability.succeeded()
    availability.failed(OSError("away"))
    part = Part.ENDINGS
    assert outages.heard == [(part, 1, 3), (part, 2, 4), (part, 2, True), (part, 1, 0)]
