"""A small world that enqueues, claims, fails, dies and rebalances by plan, and what it must have kept at the end.

Producers and workers run side by side, each on connections of its own. A worker here is the library's claimer and its
endings, driven by the plan: it dies by dropping everything it holds, it stalls until its lease has been swept and
then tries to write. What became of each row is noted by a trigger, in the transaction that did it, so the checks ask
nobody who could be wrong.
"""

import asyncio
import json
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal
from uuid import UUID

import asyncpg

from holdfast.db.database import Connection, Database
from holdfast.db.link import Link
from holdfast.errors import Contended
from holdfast.housekeeping.loop import Housekeeper
from holdfast.inbox.claim import Known
from holdfast.inbox.claimer import Claimer
from holdfast.inbox.ending import Ending, write
from holdfast.model.job import Claim
from holdfast.model.keys import bucket
from holdfast.model.outcome import AttemptFailed, Completed, Ended, Final, HandedBack, Outcome, Snoozed
from holdfast.model.report import Report
from tests.support.inbox import JOB
from tests.support.pooler import database_at, direct

Queue = Literal["block", "skip", "owned", "plain", "loose"]
"""Ordered; ordered, but a retry does not hold its key; ordered and owned; neither; owned without order."""
Fate = Literal["complete", "fail", "doom", "abandon", "snooze", "hand back", "stall", "kill", "kill twice"]
"""How the first run of a row ends; later ones complete, but for the doomed and those that kill twice."""

ORDERED = ("block", "skip", "owned")
OWNED = ("owned", "loose")
QUEUES = ("block", "skip", "owned", "plain", "loose")
KEYS = ("a", "b", "c")
MOST_KEYS = len(KEYS) * len(QUEUES)
LEASE = 0.4
CHORES_EVERY = 0.1
POLL = 0.01
SHARES_LAST = 0.2
"""Seconds for which the workers believe in one distribution of the buckets."""
NEVER = datetime.max.replace(tzinfo=UTC)
BOUND = 15.0
"""Seconds for which a row may wait although its key is free: many times what a rescan, a patrol, a round of chores, a
backoff and a bucket without an owner take together, on a machine that is busy."""
LONG = timedelta(seconds=0.25)
"""After that, whoever ended the row before has committed, and nobody can have passed the next one meanwhile."""
REST = 40.0
"""Seconds in which everything has ended after the last commit: lease, backoff and 10 s are promised; the rest is for a
busy machine."""


@dataclass(frozen=True)
class Row:
    queue: Queue
    key: str
    fate: Fate = "complete"
    ms: int = 0
    priority: int = 1


@dataclass(frozen=True)
class Transaction:
    rows: tuple[Row, ...]
    hold_ms: int = 0
    hold_looks: int = 0
    """It commits after each worker has looked along the guarded lanes so often meanwhile."""
    commits: bool = True
    pause_ms: int = 0
    cancels: bool = False
    """Afterwards, an older job of this producer is cancelled."""


@dataclass(frozen=True)
class Hire:
    """A worker, and whoever comes when it has died."""

    capacity: int = 50
    hand_over: Literal["take", "leave", "never"] = "take"
    """The next row of a key whose row ended here: it is taken, left to all, or forgotten (as if we had died there)."""


@dataclass(frozen=True)
class Plan:
    producers: tuple[tuple[Transaction, ...], ...]
    workers: tuple[Hire, ...]
    shares: tuple[tuple[frozenset[str], ...], ...] = ()
    """Per stretch of time and worker, the keys whose buckets it takes for its own; at last they are dealt out well."""
    linger_ms: int = 0
    """Up to so long claims stop between their statements, and all who change a row before they commit."""


@dataclass
class Sent:
    """A row that its producer has enqueued."""

    row: Row
    began: float
    committed: float = 0.0
    """After the commit had returned; began and committed are of this process's clock."""
    commits_at: datetime = NEVER
    committed_at: datetime = NEVER
    """Before and after the commit, by the server's clock."""


@dataclass(frozen=True)
class Call:
    """One look along the guarded lanes with room for every key."""

    began: float
    ended: float


@dataclass(frozen=True)
class Change:
    """One row's change of status, as the trigger saw it."""

    n: int
    id: UUID
    queue: str
    key: str
    before: str
    after: str
    generation: int
    fence: int
    at: datetime

    @property
    def claims(self) -> bool:
        return self.after == "processing"

    @property
    def ends(self) -> bool:
        # What was cancelled when its lease ran out has ended as failed; the archive takes it a moment later.
        return self.after in ("failed", "dead_letter") or (self.after == "gone" and self.before != "failed")


@dataclass
class World:
    """What happened."""

    database: Database
    observer: Connection
    committed: dict[UUID, Sent] = field(default_factory=dict)
    dropped: set[UUID] = field(default_factory=set)
    claims: dict[tuple[UUID, int], Call] = field(default_factory=dict)
    calls: dict[str, list[Call]] = field(default_factory=lambda: defaultdict(list))
    looks: list[int] = field(default_factory=list)
    """How often each worker has looked along the guarded lanes, whatever it found."""
    written: list[tuple[UUID, int, str]] = field(default_factory=list)
    """Endings that were accepted: job, generation, and what became of the row."""
    stale: list[tuple[Claim, Report[Claim]]] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """What has not ended."""
    shares: tuple[frozenset[str], ...] = ()
    deaths: int = 0
    over: bool = False
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def ask(self, question: str, *arguments: object) -> list[asyncpg.Record]:
        async with self.asking:
            return list(await self.observer.fetch(question, *arguments))


NOTED = """
create table pace (seconds float8);
insert into pace values (0);
create function linger() returns void language sql volatile as 'select pg_sleep(random() * seconds) from public.pace';
create table changes (
    n bigint generated always as identity, id uuid, queue text, key text, before text, after text,
    generation bigint, fence bigint, at timestamptz default clock_timestamp());
create function note_change() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' then
        insert into public.changes (id, queue, key, before, after, generation, fence)
        values (old.id, old.queue, old.partition_key, old.status, 'gone', old.lease_generation, old.fence);
    elsif old.status <> new.status then
        insert into public.changes (id, queue, key, before, after, generation, fence)
        values (new.id, new.queue, new.partition_key, old.status, new.status, new.lease_generation, new.fence);
    end if;
    perform public.linger();
    return null;
end
$$;
create trigger note_change after update or delete on holdfast.inbox for each row execute function note_change();
insert into holdfast.queues (name, ordered, skips, owned) values
    ('block', true, false, false), ('skip', true, true, false),
    ('owned', true, false, true), ('loose', false, false, true);
update holdfast.settings set value = '0.02' where name = 'backoff_unit';
update holdfast.settings set value = '0' where name = 'backoff_jitter';
"""

EMPTIED = "truncate holdfast.inbox, holdfast.archive, holdfast.chores, changes"


async def prepare(url: str) -> None:
    """Let the database take notes, and linger when it is told to."""
    connection = await asyncpg.connect(direct(url))
    await connection.execute(NOTED)
    await connection.close()
    await alter_function(
        url, "claim_guarded",
        *((f"\n    -- {step}. ", f"\n    perform public.linger(); -- {step}. ") for step in (2, 3, 4, 5)),
    )  # fmt: skip


async def alter_function(url: str, name: str, *changes: tuple[str, str]) -> None:
    """Put other text into a function."""
    connection = await asyncpg.connect(direct(url))
    text = await connection.fetchval("select pg_get_functiondef($1::text::regproc)", f"holdfast.{name}")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    await connection.execute(text)
    await connection.close()


async def play(url: str, plan: Plan) -> World:
    """Run the plan on an emptied inbox until everything is at rest."""
    async with _connected(url) as observer:
        await observer.execute(EMPTIED)
        await observer.execute("update pace set seconds = $1", plan.linger_ms / 1000)
        world = World(database_at(url), observer, looks=[0] * len(plan.workers))
        keeper = asyncio.create_task(Housekeeper(world.database, CHORES_EVERY, grace=0.0).run())
        dealer = asyncio.create_task(_deal(world, plan))
        workers = [asyncio.create_task(_slot(world, number, hire)) for number, hire in enumerate(plan.workers)]
        producing = asyncio.create_task(_produce_all(world, url, plan))
        try:
            await _first_of(producing, workers)
            await _first_of(asyncio.create_task(_rest(world)), [*workers, dealer])
            world.over = True
            await asyncio.gather(*workers)
        finally:
            for task in (keeper, dealer, producing, *workers):
                task.cancel()
            await asyncio.gather(keeper, dealer, producing, *workers, return_exceptions=True)
        world.changes = [Change(*row) for row in await world.ask("select * from changes order by n")]
        world.left = [
            f"{row[0]} {row[1]}"
            for row in await world.ask("select status, id from holdfast.inbox where dead_at is null")
        ]
        return world


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(direct(url))
    try:
        yield connection
    finally:
        connection.terminate()


async def _first_of(work: "asyncio.Task[None]", others: Sequence["asyncio.Task[None]"]) -> None:
    """Until the work is done; raises what one of the others raises meanwhile."""
    pending = {task for task in others if not task.done()}
    while not work.done():
        done, _ = await asyncio.wait({work, *pending}, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {work}:
            task.result()
        pending -= done
    work.result()


async def _rest(world: World) -> None:
    deadline = time.monotonic() + REST
    while await world.ask("select from holdfast.inbox where status <> 'dead_letter' limit 1"):
        if time.monotonic() > deadline:
            return
        await asyncio.sleep(0.02)


async def _deal(world: World, plan: Plan) -> None:
    for shares in plan.shares:
        world.shares = shares
        await asyncio.sleep(SHARES_LAST)
    count = len(plan.workers)
    world.shares = tuple(frozenset(KEYS[number::count]) for number in range(count))


# Producers


async def _produce_all(world: World, url: str, plan: Plan) -> None:
    await asyncio.gather(*(_produce(world, url, transactions) for transactions in plan.producers))


async def _produce(world: World, url: str, transactions: Sequence[Transaction]) -> None:
    mine: list[UUID] = []
    async with _connected(url) as connection:
        for planned in transactions:
            await _transact(world, connection, planned, mine)
            await asyncio.sleep(planned.pause_ms / 1000)
            if planned.cancels and mine:
                await connection.fetch(world.database.sql("inbox", "cancel"), mine.pop(0), "cancelled", None)


async def _transact(world: World, connection: Connection, planned: Transaction, mine: list[UUID]) -> None:
    sent: dict[UUID, Sent] = {}
    transaction = connection.transaction()
    await transaction.start()
    for row in planned.rows:
        began = time.monotonic()
        id = await connection.fetchval(
            "select holdfast.enqueue('job', $1::text::jsonb, queue => $2, key => $3, priority => $4,"
            " max_attempts => 3)",
            json.dumps({"fate": row.fate, "ms": row.ms}), row.queue, row.key, row.priority,
        )  # fmt: skip
        sent[id] = Sent(row, began)
    await asyncio.sleep(planned.hold_ms / 1000)
    enough = [looks + planned.hold_looks for looks in world.looks]
    while any(looks < least for looks, least in zip(world.looks, enough, strict=True)):
        await asyncio.sleep(0.001)
    if not planned.commits:
        await transaction.rollback()
        world.dropped |= sent.keys()
        return
    commits_at = await connection.fetchval("select clock_timestamp()")
    # Before the commit: a row may be claimed before its producer hears that it was committed.
    world.committed |= sent
    await transaction.commit()
    now = time.monotonic()
    at = await connection.fetchval("select clock_timestamp()")
    for each in sent.values():
        each.committed, each.commits_at, each.committed_at = now, commits_at, at
    mine += sent


# Workers


class Killed(Exception):
    pass


async def _slot(world: World, number: int, hire: Hire) -> None:
    """One worker after another, until all is over."""
    while not world.over:
        await _Worker(world, number, hire).work()


class _Worker:
    def __init__(self, world: World, number: int, hire: Hire) -> None:
        self.name = f"w{number}-{world.deaths}"
        self._world = world
        self._number = number
        self._hire = hire
        self._claim_link, self._write_link, self._key_link = (
            Link(world.database, f"{purpose} {self.name}") for purpose in ("claim", "write", "keys")
        )
        self.claimer = Claimer(self._claim_link, self.name, QUEUES, Known(JOB), LEASE, ordered=True)
        self._guarded = self.claimer._guarded
        self._held = 0
        self._group: asyncio.TaskGroup

    async def work(self) -> None:
        try:
            async with asyncio.TaskGroup() as self._group:
                self._group.create_task(self._claim_loop())
                self._group.create_task(self._hand_over_loop())
        except* Killed:
            self._world.deaths += 1
        finally:
            for link in (self._claim_link, self._write_link, self._key_link):
                link.drop()

    @property
    def _room(self) -> int:
        return max(self._hire.capacity - self._held, 0)

    async def _claim_loop(self) -> None:
        while not self._world.over:
            if self._world.shares:
                buckets = [bucket(key) for key in sorted(self._world.shares[self._number])]
                self.claimer.own(dict.fromkeys(OWNED, buckets))
            room, rescans = self._room, self._guarded.rescans
            began = time.monotonic()
            batch = await self.claimer.claim(room)
            call = Call(began, time.monotonic())
            # The two courses take turns.
            self._world.looks[self._number] += self.claimer._turns[-1].course is self._guarded
            if self._guarded.rescans > rescans and room - len(batch.claims) > MOST_KEYS:
                self._world.calls[self.name].append(call)
            claims = batch.claims
            if batch.suspects and (suspect := await self.claimer.claim_suspect()):
                claims = [*claims, suspect]
            self._take(claims, call)
            if not claims and not batch.more:
                await asyncio.sleep(POLL)

    async def _hand_over_loop(self) -> None:
        while not self._world.over:
            if self.claimer.vacated:
                began = time.monotonic()
                room = self._room if self._hire.hand_over == "take" else 0
                claims = await self.claimer.hand_over(self._key_link, room)
                self._take(claims, Call(began, time.monotonic()))
            await asyncio.sleep(0.002)

    def _take(self, claims: Sequence[Claim], call: Call) -> None:
        if not claims:
            return
        self._world.claims |= {(claim.id, claim.generation): call for claim in claims}
        self._held += len(claims)
        stalled = [claim for claim in claims if _fate(claim) == "stall" and claim.generation == 1]
        for claim in stalled:
            self._group.create_task(self._stall(claim))
        self._group.create_task(self._run([claim for claim in claims if claim not in stalled]))

    async def _run(self, claims: Sequence[Claim]) -> None:
        endings: list[Ending[Claim]] = []
        for claim in claims:
            await asyncio.sleep(json.loads(claim.payload)["ms"] / 1000)
            endings.append((claim, _outcome(claim)))
        await self._end(endings)

    async def _stall(self, claim: Claim) -> None:
        """Sleep until the lease has run out and the row is another's, or nobody's; then try to write."""
        held = "select from holdfast.inbox where id = $1 and lease_generation = $2 and status = 'processing'"
        while await self._world.ask(held, claim.id, claim.generation):
            await asyncio.sleep(0.02)
        self._world.stale.append((claim, await self._end([(claim, Completed())])))

    async def _end(self, endings: Sequence[Ending[Claim]]) -> Report[Claim]:
        while True:
            try:
                report = await write(self._write_link, endings)
                break
            except Contended:
                continue
        self._held -= len(endings)
        for claim, outcome in endings:
            if claim not in report.lost and isinstance(outcome, (Completed, Ended)):
                self._world.written.append((claim.id, claim.generation, "gone"))
            if claim.ordered and self._hire.hand_over != "never":
                self.claimer.vacate(claim)
        return report


def _fate(claim: Claim) -> str:
    return str(json.loads(claim.payload)["fate"])


def _outcome(claim: Claim) -> Outcome:
    if claim.cancelled:
        return Ended(Final.CANCELLED, "cancelled")
    match _fate(claim), claim.generation:
        case ("kill", 1) | ("kill twice", 1 | 2):
            raise Killed
        case ("doom", _) | ("fail", 1):
            return AttemptFailed("Boom", "as planned")
        case "abandon", 1:
            return Ended(Final.FAILED, "as planned")
        case "snooze", 1:
            return Snoozed(0.05)
        case "hand back", 1:
            return HandedBack()
    return Completed()


# What must hold


def check(world: World) -> None:
    """P1, P3, P4 and P8, and the bound on waiting."""
    _everything_ended(world)
    _nothing_stale_was_written(world)
    _generations_and_fences_rise(world)
    for (queue, key), changes in _by_key(world).items():
        _one_at_a_time(queue, key, changes)
        _in_order(world, queue, key, changes)
        _no_idle_wait(world, queue, key, changes)
    _rescans_pass_nothing_over(world)


def _everything_ended(world: World) -> None:
    assert not world.left, f"P1: not at rest: {world.left}"
    ended = Counter(change.id for change in world.changes if change.ends)
    assert ended.keys() == world.committed.keys(), "P1: a job is missing, or one that was rolled back has run"
    assert set(ended.values()) <= {1}, "P1: a job ended twice"
    assert not world.dropped & {change.id for change in world.changes}, "P1: a rolled-back job was touched"


def _nothing_stale_was_written(world: World) -> None:
    for claim, report in world.stale:
        assert report.lost == [claim] and not report.completed, f"P3: a stale owner completed {claim}"
    seen = {(change.id, change.generation, change.after) for change in world.changes if change.before == "processing"}
    for written in world.written:
        assert written in seen, f"P3: written under an old generation: {written}"


def _generations_and_fences_rise(world: World) -> None:
    claims = [change for change in world.changes if change.claims]
    fences = Counter(change.fence for change in claims)
    assert not fences or max(fences.values()) == 1, "P4: a fence was handed out twice"
    last: dict[UUID, tuple[int, int]] = {}
    for claim in claims:
        generation, fence = last.get(claim.id, (0, 0))
        assert claim.generation == generation + 1, f"P4: {claim} follows generation {generation}"
        assert claim.fence > fence, f"P4: {claim} follows fence {fence}"
        last[claim.id] = (claim.generation, claim.fence)


def _by_key(world: World) -> dict[tuple[str, str], list[Change]]:
    keys: dict[tuple[str, str], list[Change]] = defaultdict(list)
    for change in world.changes:
        if change.queue in ORDERED:
            keys[change.queue, change.key].append(change)
    return keys


def _one_at_a_time(queue: str, key: str, changes: Sequence[Change]) -> None:
    running: UUID | None = None
    for change in changes:
        if change.claims:
            assert running is None, f"P8: {queue}/{key}: {change.id} was claimed while {running} ran"
            running = change.id
        elif change.before == "processing":
            assert running == change.id
            running = None


def _in_order(world: World, queue: str, key: str, changes: Sequence[Change]) -> None:
    first_claim: dict[UUID, int] = {}
    end: dict[UUID, int] = {}
    came_back: set[UUID] = set()
    for change in changes:
        if change.claims:
            first_claim.setdefault(change.id, change.n)
        elif (change.before, change.after) == ("processing", "pending"):
            came_back.add(change.id)
        elif change.ends:
            end[change.id] = change.n
    for first in end:
        if queue == "skip" and first in came_back:
            continue  # it was passed over while it waited for its retry
        committed = world.committed[first].committed
        for second, claimed in first_claim.items():
            if committed < world.committed[second].began:
                assert end[first] < claimed, (
                    f"P8: {queue}/{key}: {first} was committed before {second} was begun, but ended after its claim\n"
                    + "\n".join(map(str, changes))
                )


def _waits(world: World, changes: Sequence[Change]) -> Iterator[tuple[Change, timedelta, bool]]:
    """Each claim of a key with the time since it was possible, and whether the key had long been free at the commit."""
    free_at: datetime | None = None
    for change in changes:
        if change.claims:
            sent = world.committed[change.id]
            possible = sent.committed_at if free_at is None else max(sent.committed_at, free_at)
            long_free = free_at is None or free_at + LONG < sent.commits_at
            yield change, change.at - possible, long_free and change.generation == 1
        elif change.before == "processing" or change.ends:
            free_at = change.at


def _no_idle_wait(world: World, queue: str, key: str, changes: Sequence[Change]) -> None:
    for change, wait, _ in _waits(world, changes):
        assert wait.total_seconds() < BOUND, f"P14: {queue}/{key}: {change} waited {wait} although its key was free"


def _rescans_pass_nothing_over(world: World) -> None:
    """A row whose key was free when it was committed is claimed by the first rescan that begins after that.

    Or by the next, when its transaction had been set aside; and by one more when another worker held the key.
    """
    for change, claim in fresh_claims(world):
        ready = world.committed[change.id].committed
        for worker, calls in world.calls.items():
            missed = [call for call in calls if call.began >= ready and call.ended < claim.began]
            assert len(missed) <= 2, f"{len(missed)} rescans of {worker} passed {change} over"


def fresh_claims(world: World) -> Iterator[tuple[Change, Call]]:
    """First claims of rows that anybody could have claimed when they were committed, with the call that did it."""
    for (queue, _), changes in _by_key(world).items():
        for change, _, fresh in _waits(world, changes):
            claim = world.claims.get((change.id, change.generation))  # None: whoever claimed it died of it
            if queue not in OWNED and fresh and claim is not None:
                yield change, claim
