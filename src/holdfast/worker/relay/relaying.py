"""All routes of a worker process: a claim loop and a relay for each, over connections that they share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ...db.link import Link
from ...errors import ConfigurationError
from ...inbox.claimer import Claimer
from ...model.job import Claim
from ...model.occurrences import Occurrences
from ...outbox.routes import Route, declare
from ...ownership.shares import Shares
from ..attempts.completer import Completer
from ..claiming.in_place import InPlace
from ..claiming.loops import Claiming
from ..claiming.unanswered import Unanswered
from ..leases.ledger import CAPACITY, POSTS, Ledger
from ..served import Served
from ..settings import WorkerSettings

if TYPE_CHECKING:
    from .relay import Relay

WINDOW = 1000
"""Most rows that a route holds."""


class Relaying:
    def __init__(
        self,
        served: Served,
        settings: WorkerSettings,
        ledger: Ledger,
        name: str,
        completer: Completer,
        occurrences: Occurrences,
        draining: asyncio.Event,
        unanswered: Unanswered,
    ) -> None:
        self._occurrences = occurrences
        self._unanswered = unanswered
        self._tracing = served.tracing
        self.routes = served.routes
        if len(self.routes) >= POSTS:
            raise ConfigurationError(
                f"routes: expected at most {POSTS - 1} in one worker, got {len(self.routes)}; start several workers, "
                "each with some of them: --queue out.NAME"
            )
        self._links = {
            purpose: Link(served.database, f"{purpose} {name}", deadline=settings.deadline)
            for purpose in ("claim routes", "keys of routes", *(f"events of {route.name}" for route in self.routes))
        }
        window = min(WINDOW, CAPACITY // 2 // max(1, len(self.routes)))
        claims = replace(settings, concurrency=max(1, window // 2))
        self._posts: list[tuple[Claiming, Relay]] = []
        self._of_queue: dict[str, tuple[Claiming, Relay]] = {}
        for number, route in enumerate(self.routes, 1):
            post = self._make_post(number, route, claims, window, ledger, name, completer, draining)
            self._posts.append(post)
            self._of_queue.update(dict.fromkeys(route.queues, post))

    def _make_post(
        self, number: int, route: Route, settings: WorkerSettings, window: int, ledger: Ledger, name: str,
        completer: Completer, draining: asyncio.Event,
    ) -> tuple[Claiming, Relay]:  # fmt: skip
        from .relay import KNOWN, Relay  # most workers have no route

        claim_link, key_link = self._links["claim routes"], self._links["keys of routes"]
        events = self._links[f"events of {route.name}"]  # of its own: one that waits for a lock holds up no other
        relay = Relay(
            route, events, settings.lease, window, ledger, completer, self._occurrences, draining, self._tracing
        )
        claimer = Claimer(claim_link, name, list(route.queues), KNOWN, settings.lease, route.ordered)
        claiming = Claiming(
            claimer, Shares(claim_link, name), (claim_link, key_link), relay, completer, settings, ledger,
            self._occurrences, draining, self._unanswered, number,
        )  # fmt: skip
        relay.in_flight.vacate = claiming.vacate
        claiming.in_place = InPlace(claimer, relay, completer, draining)
        return claiming, relay

    @property
    def queues(self) -> list[str]:
        return list(self._of_queue)

    @property
    def held(self) -> int:
        return sum(relay.held for _, relay in self._posts)

    def set_stir(self, stir: Callable[[], None]) -> None:
        for claiming, _ in self._posts:
            claiming.stir = stir

    async def declare(self, link: Link) -> None:
        """Store the routes, as the code has them."""
        if self.routes and (added := await declare(link, self.routes)):
            self._occurrences.routes_added(added)

    @property
    def claim_loops(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        return [loop for claiming, _ in self._posts for loop in (claiming.along_lanes, claiming.through_keys)]

    @property
    def relay_loops(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        return [relay.run for _, relay in self._posts]

    def vacate(self, claim: Claim) -> bool:
        """Note that this row of an ordered key has ended. False if it is not one of a route."""
        if (post := self._of_queue.get(claim.queue)) is None:
            return False
        post[0].vacate(claim)
        return True

    def freed(self) -> None:
        """There is room in the ledger again."""
        for _, relay in self._posts:
            relay.demand.set()

    def wake(self, post: int) -> None:
        self._posts[post - 1][0].woken.set()

    def drain(self) -> None:
        for claiming, _ in self._posts:
            claiming.drain()

    async def settle(self, deadline: float) -> None:
        """Wait until nothing is in flight, or the time is over."""
        while self.held and time.monotonic() < deadline:
            await asyncio.sleep(0.01)

    async def give_away_vacated(self) -> None:
        for claiming, _ in self._posts:
            await claiming.give_away_vacated()

    async def close(self) -> None:
        for link in self._links.values():
            await link.close()
