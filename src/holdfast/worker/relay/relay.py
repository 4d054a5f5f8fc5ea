"""The relay of one route in one worker process."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from itertools import zip_longest
from typing import assert_never

import msgspec

from ...db.link import Link, backoff
from ...errors import Contended, Unreachable
from ...inbox.claim import Known
from ...inbox.convoys import followers
from ...model.event import Delivered, Message, Postponed, Refused, Verdict
from ...model.job import Claim
from ...model.occurrences import Occurrences
from ...model.outcome import DONE, AttemptFailed, Completed, Snoozed
from ...model.report import Report
from ...model.tracing import Tracing
from ...outbox import KIND
from ...outbox.loading import load, read
from ...outbox.routes import Route
from ...probes import probe
from ...transports import Transport, Unavailable
from ...webhooks.transport import Webhooks
from ..attempts.completer import Completer
from ..attempts.deciding import Unstarted, unstarted
from ..leases import ledger as marks
from ..leases.ledger import Ledger
from .connection import Connection
from .convoy import LENGTH, Convoys
from .in_flight import InFlight
from .losses import Losses
from .traced import sender

BYTES = 16 * 1024 * 1024
"""Most bytes of events that a route loads at once; each of its senders has the same share,"""
LEAST_SHARE = 1024 * 1024
"""and at least this."""
SEND_WITHIN = 30.0
"""Seconds after which a send without an answer counts as a lost connection."""
KNOWN = Known({KIND: (1, 1)})
UNREADABLE = AttemptFailed("Unreadable", "its payload names no event; expected event and on", give_up=True)
EVENT_GONE = AttemptFailed("EventGone", "its event is not in holdfast.events any more", give_up=True)


class Relay:
    """Takes the claimed rows of a route."""

    def __init__(
        self,
        route: Route,
        link: Link,
        lease: float,
        window: int,
        ledger: Ledger,
        completer: Completer,
        occurrences: Occurrences,
        draining: asyncio.Event,
        tracing: Tracing | None = None,
    ) -> None:
        self.route = route
        self._many = route.transport.bound(link, occurrences) if isinstance(route.transport, Webhooks) else None
        """If the route has many destinations: what sends to each."""
        self._transport: Transport = self._many or route.transport
        self._sender = sender(route.name, self._transport, tracing)
        self._link = link
        self._lease = lease
        self._window = window
        self._ledger = ledger
        self._completer = completer
        self._occurrences = occurrences
        self._draining = draining
        self.coming = 0
        self.demand = asyncio.Event()
        self.closed = True
        self._ready: deque[Claim] = deque()
        self._filled = asyncio.Event()
        self._postponed: list[tuple[Claim, float]] = []
        self._losses = Losses()
        self._bytes = max(BYTES // max(1, self._transport.parallel), LEAST_SHARE)
        self._convoys = Convoys(BYTES // 2)
        self.in_flight = InFlight(ledger, completer, occurrences, self._convoys, self._losses, self._filled, draining)
        self._connection = Connection(route.name, self._transport, occurrences, draining)
        self._alone = asyncio.Lock()

    # What claiming asks

    @property
    def held(self) -> int:
        in_flight = len(self.in_flight.following) + len(self.in_flight.rows)
        return self.coming + len(self._ready) + in_flight + len(self._postponed)

    lent = 0

    @property
    def ahead(self) -> int:
        return self._window // 2

    @property
    def waiting(self) -> bool:
        return bool(self._ready or self.in_flight.following)

    def take(self, claims: list[Claim], at: int) -> None:
        """Take these claimed rows; their claim was sent at `at`."""
        if not claims:
            return
        for claim in claims:
            claim.slot = self._ledger.hold(claim.id, claim.generation, at)
        self._occurrences.claimed(claims)
        if self._ledger.recalled(at):
            for claim in claims:
                self._completer.add(claim, unstarted(Unstarted.RECALLED))
            return
        self._ready.extend(claims)
        if self.closed or self._draining.is_set():  # the claim was sent before
            self.hand_back()
        self._filled.set()

    def take_soon(self, claims: list[Claim], at: int) -> None:
        """As `take`, in the next round of the event loop."""
        self.coming += len(claims)
        self._ledger.reserved += len(claims)
        asyncio.get_running_loop().call_soon(self._take_now, claims, at)

    def _take_now(self, claims: list[Claim], at: int) -> None:
        self.coming -= len(claims)
        self._ledger.reserved -= len(claims)
        self.take(claims, at)

    # Running

    async def run(self) -> None:
        """Run until drained: connect, send, and connect again."""
        while not self._draining.is_set():
            if not await self._connection.open():
                continue
            self.closed = False
            self.demand.set()
            try:
                await self._send_until_lost()
            finally:
                self.closed = True
                self.hand_back()
                await self._connection.close()

    async def _send_until_lost(self) -> None:
        """Send until the connection is lost, or the worker drains."""
        senders = [
            asyncio.create_task(self._send_batches(), name=f"holdfast relay {self.route.name} {n}")
            for n in range(max(1, self._transport.parallel))
        ]
        draining = asyncio.create_task(self._draining.wait())
        try:
            await asyncio.wait([*senders, draining], return_when=asyncio.FIRST_COMPLETED)
            if self._draining.is_set() or self._connection.unavailable:  # what is in flight may arrive
                self.closed = True
                self.hand_back()
                self._filled.set()
                await asyncio.wait(senders)
        finally:
            draining.cancel()
            for sender in senders:
                sender.cancel()
            ended = await asyncio.gather(*senders, return_exceptions=True)
            self._give_up_in_flight()
        for error in ended:
            if isinstance(error, Exception):
                raise error

    async def _send_batches(self) -> None:
        """Send one batch after the other; return when the connection is lost, or the worker drains."""
        while not self._draining.is_set() and not self.closed:
            if self._ready:
                claims = self._next_batch()
                connected = not claims or await self._send(claims)
            elif self.in_flight.following:
                connected = await self._send_followers()
            else:
                self._filled.clear()
                self.demand.set()
                await self._filled.wait()
                continue
            if not connected:
                return
            if len(self._ready) < self._window // 2:
                self.demand.set()

    def _next_batch(self) -> list[Claim]:
        """The next rows to send: some, or one alone. Rows that are not ours any more are left out."""
        claims: list[Claim] = []
        most = 1 if self._losses.in_doubt else self._transport.batch
        if self._losses.in_doubt:  # another one each time: the first may be the reason
            self._ready.rotate(-random.randrange(len(self._ready)))
        at = marks.now()
        while self._ready and len(claims) < most:
            if claims and self._losses.suspicious(self._ready[0].id):
                break
            claim = self._ready.popleft()
            notice = self._ledger.notice_of(claim.slot)
            if (why := self._not_ours(claim, notice, at)) is not None:
                self._completer.add(claim, unstarted(why))
            elif claim.cancelled or notice == marks.CANCELLED:
                self._completer.add(claim, unstarted(Unstarted.CANCELLED))
            else:
                claims.append(claim)
                if self._losses.suspicious(claim.id):
                    break
        return claims

    def _not_ours(self, claim: Claim, notice: int, at: int) -> Unstarted | None:
        """Why a row that was claimed here is not ours any more; None: it is."""
        if self._ledger.expired(claim.slot, self._lease, at) or notice == marks.LOST:
            return Unstarted.LEASE_LOST
        return Unstarted.RECALLED if notice == marks.RECALLED else None

    async def _send(self, claims: Sequence[Claim]) -> bool:
        """Send these, and settle each. False if the connection was lost."""
        return await self._send_in_flight([claim for claim in claims if self.in_flight.add(claim)])

    async def _send_in_flight(self, claims: Sequence[Claim]) -> bool:
        try:
            if len(claims) == 1 and self._losses.suspicious(claims[0].id):
                async with self._alone:
                    return await self._send_alone(claims[0])
            claims = await self._fan_out(claims)
            messages = await self._load_convoys(claims) if claims else []
            return not messages or await self._deliver(messages)
        except (Unreachable, Contended) as error:
            left = self.in_flight.left(claims)
            self._occurrences.events_not_loaded(self.route.name, len(left), error)
            for claim in left:
                self.in_flight.end(claim, unstarted(Unstarted.WAITED))
            await asyncio.sleep(backoff(3))
            return True
        except Exception as error:
            # Not an outage: the server rejected a statement. One bad row must not hold up the others.
            left = self.in_flight.left(claims)
            if len(left) == 1:
                self.in_flight.end(left[0], self._failed(left[0], type(error).__name__, str(error)))
                return True
            for claim in left:
                if self.in_flight.left([claim]) and not await self._send_in_flight([claim]):
                    return False
            return True

    async def _fan_out(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """Turn deliveries of the route into one for each destination, if it has many; return the rest."""
        if self._many is None:
            return claims
        whole = [claim for claim in claims if (found := read(claim)) is not None and found.endpoint is None]
        if whole:
            probe("relay.before_fan_out")
            made = await self._many.fan_out(whole)
            probe("relay.after_fan_out")
            done, missing = set(made.done), set(made.missing)
            report: Report[Claim] = Report(completed=len(done), late=made.late)
            self._occurrences.ended([(claim, DONE) for claim in whole if claim.id in done], report)
            for claim in self.in_flight.left(whole):
                if claim.id in missing:
                    self.in_flight.end(claim, EVENT_GONE)
                else:
                    self.in_flight.written(claim, lost=claim.id not in done)
        return self.in_flight.left(claims)

    async def _send_alone(self, claim: Claim) -> bool:
        messages = await self._load([claim])
        if not messages or await self._deliver(messages, alone=True):
            self._losses.forget(claim.id)
            return True
        return False

    async def _send_followers(self) -> bool:
        """Send the rows of convoys whose turn has come. False if the connection was lost."""
        messages = self._next_followers()
        try:
            return not messages or await self._deliver(messages)
        except (Unreachable, Contended):  # a transport that uses our database: as in `_send`
            for message in messages:
                if (claim := self.in_flight.rows.get(message.delivery)) is not None:
                    self.in_flight.end(claim, unstarted(Unstarted.WAITED))
            return True

    def _next_followers(self) -> list[Message]:
        """Take the rows of convoys whose turn has come. Their lease is that of their head."""
        batch: list[tuple[Claim, Message]] = []
        at = marks.now()
        while self.in_flight.following and len(batch) < self._transport.batch:
            claim, message = self.in_flight.following.popleft()
            if (why := self._not_ours(claim, self._ledger.notice_of(claim.slot), at)) is not None:
                self.in_flight.leave(claim, unstarted(why))
            elif self.in_flight.add(claim):
                batch.append((claim, message))
        self._occurrences.claimed([claim for claim, _ in batch])
        return [message for _, message in batch]

    async def _load_convoys(self, claims: Sequence[Claim]) -> list[Message]:
        """Load the events of these rows, and of those that may follow them."""
        heads = [claim for claim in claims if claim.ordered and claim.idempotency_key is None]
        if not heads or self._many is not None or self._losses.in_doubt or self._convoys.full:
            return await self._load(claims)
        behind = await followers(self._link, heads, LENGTH - 1, KNOWN)
        # The next one of each before the second of any: if they are large, all convoys get shorter.
        in_rounds = [claim for round in zip_longest(*behind) for claim in round if claim is not None]
        found = {message.delivery: message for message in await self._load(claims, in_rounds)}
        rows_behind = {head.id: rows for head, rows in zip(heads, behind, strict=True)}
        # Those that have ended meanwhile, because an older claim of the row did, have no slot and send nothing.
        claims = self.in_flight.left(claims)
        for claim in claims:
            self._convoys.form(claim, rows_behind.get(claim.id, ()), found)
        return [found[claim.id] for claim in claims if claim.id in found]

    async def _load(self, claims: Sequence[Claim], behind: Sequence[Claim] = ()) -> list[Message]:
        """Load the events of these rows, which are in flight, and then those of rows behind them."""
        found = [(claim, read(claim)) for claim in claims]
        for claim in self.in_flight.left([claim for claim, delivery in found if delivery is None]):
            self.in_flight.end(claim, UNREADABLE)
        claims = [claim for claim, delivery in found if delivery is not None]
        if not claims:
            return []
        found += [(claim, read(claim)) for claim in behind]
        rows = [claim for claim, delivery in found if delivery is not None]
        deliveries = [delivery for _, delivery in found if delivery is not None]
        messages, gone, looked_at = await load(self._link, rows, deliveries, self._bytes)
        for claim in self.in_flight.left(gone):
            self.in_flight.end(claim, EVENT_GONE)
        for claim in reversed(claims[looked_at:]):  # too large together: the next batch
            if self.in_flight.remove(claim):
                self._ready.appendleft(claim)
                self._filled.set()  # there may be a sender that has nothing to do
        return messages

    async def _deliver(self, messages: Sequence[Message], alone: bool = False) -> bool:
        """Send them. What is not settled afterwards has an unknown fate. False if the connection was lost."""
        error: BaseException | None = None
        self.in_flight.start(messages)
        probe("relay.before_send")
        try:
            async with asyncio.timeout(SEND_WITHIN):
                await self._sender.send(messages, self._settle)
        except (Unreachable, Contended):
            raise  # of our database: `_send` handles it
        except Exception as raised:
            error = raised
        finally:
            await self._write_postponed()
        probe("relay.after_send")
        unknown = [claim for m in messages if (claim := self.in_flight.rows.get(m.delivery)) is not None]
        if not unknown:
            self._connection.works()
            return True
        why = error or ConnectionError("the transport did not say what became of it")
        self._connection.lost(len(unknown), why)
        blamed = not isinstance(why, Unavailable)
        for claim in unknown:
            if blamed and self._losses.lost(claim.id) and alone:
                message = f"the connection was lost three times while this was sent: {type(why).__name__}: {why}"
                self.in_flight.end(claim, self._failed(claim, "ConnectionLost", message))
            else:
                self.in_flight.end(claim, unstarted(Unstarted.WAITED))
        return False

    def _settle(self, message: Message, verdict: Verdict) -> None:
        claim = self.in_flight.rows.get(message.delivery)
        if claim is None:
            return  # settled before
        self._losses.answered()
        match verdict:
            case Delivered(reference=None, details=details) if not details:
                self.in_flight.end(claim, DONE)
            case Delivered(reference=reference, details=details):
                kept = details if reference is None else {"reference": reference, **details}
                self.in_flight.end(claim, Completed(msgspec.json.encode(kept).decode()))
            case Postponed(delay=delay):
                if self._many is None:
                    self.in_flight.end(claim, Snoozed(delay))
                else:
                    self.in_flight.remove(claim)
                    self._postponed.append((claim, delay))
            case Refused() if self._convoys.follows(claim):
                # It was not claimed, so it lost no attempt. It will be the head of its key, and be sent again as such.
                self.in_flight.end(claim, unstarted(Unstarted.WAITED))
            case Refused(reason=reason, final=final, delay=delay, details=details):
                self.in_flight.end(claim, self._failed(claim, "Refused", reason, final, delay, details))
            case _:
                assert_never(verdict)

    async def _write_postponed(self) -> None:
        """Give back what is not sent now: where it waits depends on the state of its destination."""
        if not self._postponed or self._many is None:
            return
        postponed, self._postponed = self._postponed, []
        try:
            queues = await self._many.postpone(postponed)
        except BaseException as error:
            for claim, delay in postponed:
                self.in_flight.end(claim, Snoozed(delay))
            if not isinstance(error, (Unreachable, Contended)):
                raise
            return
        for claim, _ in postponed:
            self.in_flight.written(claim, lost=claim.id not in queues)

    def _failed(
        self,
        claim: Claim,
        error: str,
        message: str,
        final: bool = False,
        delay: float | None = None,
        details: dict[str, str | int | float] | None = None,
    ) -> AttemptFailed:
        after = self.route.retry.delay(claim.attempt) if delay is None else delay
        failed = AttemptFailed(error, message, delay=after, give_up=final, details=details)
        self._occurrences.failed(claim, failed)
        return failed

    # The end

    def hand_back(self) -> None:
        """Hand back what has not been sent."""
        while self._ready:
            self.in_flight.end(self._ready.popleft(), unstarted(Unstarted.WAITED))
        self.in_flight.end_following()

    def _give_up_in_flight(self) -> None:
        self.in_flight.end_all()
        postponed, self._postponed = self._postponed, []
        for claim, delay in postponed:
            self.in_flight.end(claim, Snoozed(delay))
