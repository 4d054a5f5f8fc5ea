"""The rows that a relay is sending. One that is claimed again takes the place of its older claim, and ends once."""

import asyncio
from typing import Any, cast

from msgspec.structs import replace
from tests.support.claims import claim

from holdfast.db.link import Link
from holdfast.model.job import Claim
from holdfast.model.occurrences import Occurrences
from holdfast.model.outcome import DONE, HandedBack
from holdfast.worker.attempts.completer import Completer
from holdfast.worker.leases.ledger import Ledger, now
from holdfast.worker.relay.convoy import Convoys
from holdfast.worker.relay.in_flight import InFlight
from holdfast.worker.relay.losses import Losses


class Sending:
    """Nothing is written: its completer does not run."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.completer = Completer(cast(Link, None), self.ledger, Occurrences(), 90, 100)
        self.in_flight = InFlight(
            self.ledger, self.completer, Occurrences(), Convoys(1000), Losses(), asyncio.Event(), asyncio.Event()
        )

    def claimed_twice(self) -> tuple[Claim, Claim]:
        older = claim(self.ledger)
        slot = self.ledger.hold(older.id, 2, now())
        newer = replace(older, generation=2, slot=slot)
        self.in_flight.add(older)
        self.in_flight.add(newer)
        return older, newer

    @property
    def held(self) -> list[int]:
        """Generations."""
        return [row.generation for row in self.ledger.held()]

    @property
    def ended(self) -> list[tuple[int, Any]]:
        return [(claim.generation, type(outcome)) for claim, outcome in self.completer._waiting]


async def test_the_older_claim_is_let_go_of_at_once() -> None:
    sending = Sending()
    older, newer = sending.claimed_twice()
    assert (sending.held, sending.ended) == ([2], [])
    assert sending.in_flight.left([older, newer]) == [newer]


async def test_an_older_claim_that_comes_later_is_lost() -> None:
    """A row of a convoy has the fence of its head; meanwhile, the row itself was claimed."""
    sending = Sending()
    newer = replace(claim(sending.ledger), fence=8)
    assert sending.in_flight.add(newer)
    follower = replace(newer, fence=7, slot=sending.ledger.hold(newer.id, 2, now()))
    assert not sending.in_flight.add(follower)
    assert list(sending.in_flight.rows.values()) == [newer]


async def test_an_end_of_the_older_claim_leaves_the_newer_one_in_flight() -> None:
    sending = Sending()
    older, newer = sending.claimed_twice()
    assert not sending.in_flight.remove(older)
    assert list(sending.in_flight.rows.values()) == [newer]
    sending.in_flight.end(newer, DONE)
    assert (sending.in_flight.rows, sending.ended) == ({}, [(2, type(DONE))])


async def test_a_newer_claim_that_is_handed_back_before_it_is_sent_leaves_the_older_one_in_flight() -> None:
    sending = Sending()
    older = claim(sending.ledger)
    newer = replace(older, generation=2, slot=sending.ledger.hold(older.id, 2, now()))
    sending.in_flight.add(older)
    sending.in_flight.end(newer, HandedBack())
    assert list(sending.in_flight.rows.values()) == [older]
    assert sending.ended == [(2, HandedBack)]
