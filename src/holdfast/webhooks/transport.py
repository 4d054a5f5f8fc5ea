"""Webhooks as a transport: each message of a batch is one signed request to its endpoint."""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from collections import deque
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import UUID

from ..db.runner import Runner
from ..errors import ConfigurationError
from ..model.event import ENDPOINTS, Delivered, Message, Postponed, Refused, Verdict
from ..model.job import Holding
from ..model.occurrences import Occurrences
from ..transports import Settle
from .addresses import Policy
from .fanning import QUEUE, FannedOut, fan_out, postpone
from .limits import MOST_URLS, PATIENCE, PER_HOST, TURN, Breaker, Busy, Slots
from .schedule import GIVES_UP_AFTER, delay
from .sending import Endpoint, attempt, new_sender, reason

if TYPE_CHECKING:
    from .sender import Answer, Sender

DEADLINE = 15.0
LONGEST_DEADLINE = 25.0
"""A batch must end within 30 s: later, the relay takes its connection for lost."""


class Webhooks:
    """A route's destination: the endpoints in the table `holdfast.endpoints`.

    ```python
    hf.relay("order.*", to=Webhooks(), name="webhooks")
    ```

    Requests go to public addresses over https only, unless you allow more: `allow_private` (True, or networks such as
    `["10.1.0.0/16"]`), `allow_http`, `ports` (None: any).
    """

    batch = 100
    parallel = 64
    queues = (QUEUE,)
    name = "webhooks"
    """What the route must be called: the queues of endpoints are named after it."""

    def __init__(
        self,
        *,
        allow_private: bool | Sequence[str] = False,
        allow_http: bool = False,
        ports: Sequence[int] | None = (443,),
        timeout: float = DEADLINE,
        per_host: int = PER_HOST,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.policy = Policy(allow_private, allow_http, ports)
        if not 0 < timeout <= LONGEST_DEADLINE:
            raise ConfigurationError(f"timeout: expected up to {LONGEST_DEADLINE:g} seconds, got {timeout!r}")
        if not 1 <= per_host <= 100:
            raise ConfigurationError(f"per_host: expected 1 to 100, got {per_host!r}")
        self.timeout = timeout
        self.per_host = per_host
        self.tls = tls

    @property
    def shown(self) -> str:
        """What logs and operators see of it."""
        return ENDPOINTS

    def bound(self, runner: Runner, occurrences: Occurrences) -> EndpointTransport:
        """The transport that reads endpoints with this runner: one for each worker process."""
        return EndpointTransport(self, runner, occurrences)

    async def open(self) -> None:
        """Never works: this is a value of the application. See `bound`."""
        raise ConfigurationError("Webhooks() sends nothing by itself; a worker does, for hf.relay(…, to=Webhooks())")

    async def send(self, batch: Sequence[Message], settle: Settle) -> None:
        """See `open`."""
        await self.open()

    async def close(self) -> None:
        """Nothing was opened."""


class EndpointTransport:
    """The transport of one worker process."""

    batch, parallel = Webhooks.batch, Webhooks.parallel

    def __init__(self, webhooks: Webhooks, runner: Runner, occurrences: Occurrences) -> None:
        self._webhooks = webhooks
        self._runner = runner
        self._occurrences = occurrences
        self._sender: Sender | None = None
        self._slots: dict[str, Slots] = {}
        self._of_host: dict[tuple[str, str], Slots] = {}
        self._breakers: dict[UUID, Breaker] = {}

    @property
    def shown(self) -> str:
        """What logs and operators see of it."""
        return self._webhooks.shown

    async def open(self) -> None:
        """Get ready to send. Nothing is connected to: endpoints are many, and one that is away is no reason to wait."""
        if self._sender is None:
            self._sender = new_sender(self._webhooks)

    async def close(self) -> None:
        """Close the connections, at once."""
        if self._sender is not None:
            sender, self._sender = self._sender, None
            await sender.close()

    async def fan_out(self, held: Sequence[Holding]) -> FannedOut:
        """Turn deliveries of the route into one for each endpoint; see `fanning`."""
        return await fan_out(self._runner, held)

    async def postpone(self, held: Sequence[tuple[Holding, float]]) -> dict[UUID, str]:
        """Give deliveries back without an attempt; see `fanning`."""
        return await postpone(self._runner, held)

    async def send(self, batch: Sequence[Message], settle: Settle) -> None:
        """Send each message to its endpoint. A message has a verdict whatever its endpoint does."""
        assert self._sender is not None, "open() comes first"
        endpoints = await self._load(batch)
        groups: dict[Slots, deque[tuple[Message, Endpoint]]] = {}
        for message in batch:
            endpoint = endpoints.get(message.destination or "")
            if endpoint is None:
                settle(message, Refused(reason=f"there is no endpoint {message.destination}", final=True))
            elif endpoint.status != "active":
                settle(message, Postponed(reason=f"the endpoint is {endpoint.status}"))
            else:
                groups.setdefault(self._slots_of(endpoint.url), deque()).append((message, endpoint))
        round_ = _Round(settle, time.monotonic() + PATIENCE)
        lanes = [
            self._lane(self._sender, slots, group, round_)
            for slots, group in groups.items()
            for _ in range(min(slots.number, len(group)))
        ]
        if len(lanes) == 1:
            await lanes[0]
        else:
            await asyncio.gather(*lanes)
        await self._note(endpoints, round_)

    async def _load(self, batch: Sequence[Message]) -> dict[str, Endpoint]:
        ids = {UUID(message.destination) for message in batch if message.destination is not None}
        rows = await self._runner.run("webhooks", "load", list(ids))
        return {
            str(row["id"]): Endpoint(
                UUID(str(row["id"])),
                row["url"],
                row["status"],
                row["secrets"],
                row["failing_since"],
                row["failing_for"],
            )
            for row in rows
        }

    async def _lane(self, sender: Sender, slots: Slots, group: deque[tuple[Message, Endpoint]], round_: _Round) -> None:
        """Send messages of a group to one host, one after the other. Up to four lanes share a group."""
        while group and (left := round_.until - time.monotonic()) > 0:
            try:
                await slots.acquire(left)
            except TimeoutError:
                break
            try:
                turn = 0
                while group and (turn < TURN or not slots.wanted) and (now := time.monotonic()) < round_.until:
                    turn += 1
                    message, endpoint = group.popleft()
                    round_.settle(message, await self._attempt(sender, message, endpoint, round_, now))
                    slots.pace += (time.monotonic() - now - slots.pace) / 8
            finally:
                slots.give_back()
        round_.postpone(group, slots)

    async def _attempt(
        self, sender: Sender, message: Message, endpoint: Endpoint, round_: _Round, now: float
    ) -> Verdict:
        breaker = self._breakers.get(endpoint.id)
        if breaker is not None and (wait := breaker.refuses(now)) is not None:
            return Postponed(reason="the endpoint cannot be reached", delay=wait)
        if endpoint.id in round_.gone:
            return Postponed(reason="the endpoint is disabled")
        try:
            answer = await attempt(sender, message, endpoint, round_.until - now)
        except Busy as busy:
            return Postponed(reason=str(busy), delay=random.uniform(1.0, 3.0))
        except Exception as error:  # a row that was changed by hand must not stop the others
            round_.failed.add(endpoint.id)
            return Refused(reason=f"{type(error).__name__}: {error}"[:300], delay=delay(message.attempt))
        return self._verdict(message, endpoint, answer, round_)

    def _verdict(self, message: Message, endpoint: Endpoint, answer: Answer, round_: _Round) -> Verdict:
        now = time.monotonic()
        if answer.status is None:
            self._breakers.setdefault(endpoint.id, Breaker()).failed(now)
        elif answer.retry_after and answer.status in (429, 503):
            self._breakers.setdefault(endpoint.id, Breaker()).asked_to_wait(now, answer.retry_after)
        else:
            self._breakers.pop(endpoint.id, None)
        if answer.status is not None and 200 <= answer.status < 300:
            round_.took.add(endpoint.id)
            return Delivered(reference=None, details=answer.details)
        round_.failed.add(endpoint.id)
        if answer.status == 410:
            round_.gone.add(endpoint.id)
        return Refused(
            reason=reason(answer),
            delay=delay(message.attempt, answer.retry_after if answer.status in (429, 503) else None),
            details=answer.details,
        )

    async def _note(self, endpoints: dict[str, Endpoint], round_: _Round) -> None:
        """Write what has changed about the endpoints. If that fails, a later batch finds the same."""
        try:
            for id in round_.gone:
                await self._disable(id, "it answered 410 Gone", None)
            began, recovered = [], []
            for endpoint in endpoints.values():
                if endpoint.id in round_.gone:
                    continue
                if endpoint.id in round_.took:
                    if endpoint.failing_since is not None:
                        recovered.append(endpoint.id)
                elif endpoint.id in round_.failed:
                    if endpoint.failing_since is None:
                        began.append(endpoint.id)
                    elif (endpoint.failing_for or 0.0) > GIVES_UP_AFTER:
                        days = GIVES_UP_AFTER / 86400
                        why = f"no delivery has succeeded for {days:g} days"
                        await self._disable(endpoint.id, why, endpoint.failing_since)
            if began or recovered:
                await self._runner.run("webhooks", "health", began, recovered)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._occurrences.endpoints_not_noted(error)

    async def _disable(self, id: UUID, why: str, failing: datetime | None) -> None:
        if await disable(self._runner, id, why, failing):
            self._occurrences.endpoint_disabled(id, why)

    def _slots_of(self, url: str) -> Slots:
        found = self._slots.get(url)
        if found is None:
            if len(self._slots) >= MOST_URLS:
                self._slots = {each: slots for each, slots in self._slots.items() if not slots.idle}
                self._of_host = {each: slots for each, slots in self._of_host.items() if not slots.idle}
            parts = urlsplit(url)
            found = self._of_host.setdefault((parts.scheme, parts.netloc.lower()), Slots(self._webhooks.per_host))
            self._slots[url] = found
        return found


class _Round:
    """One batch: how its messages are settled, until when requests are begun, and what has become of its endpoints."""

    __slots__ = ("failed", "gone", "settle", "took", "until")

    def __init__(self, settle: Settle, until: float) -> None:
        self.settle = settle
        self.until = until
        self.took: set[UUID] = set()
        self.failed: set[UUID] = set()
        self.gone: set[UUID] = set()

    def postpone(self, group: deque[tuple[Message, Endpoint]], slots: Slots) -> None:
        """Send these later: their host is slow, or others are at it."""
        delay = min(max(len(group) * slots.pace / slots.number, 0.5), 60.0)
        while group:
            message, _ = group.popleft()
            self.settle(message, Postponed(reason="too many requests wait for this host", delay=delay))


async def disable(runner: Runner, id: UUID, why: str, failing: datetime | None) -> bool:
    """Disable an active endpoint, and hold its deliveries. False: it was not active, or has taken something since."""
    rows = await runner.run("webhooks", "change", id, "disabled", why, ["active"], failing, None)
    return bool(rows) and rows[0]["moved"] is not None
