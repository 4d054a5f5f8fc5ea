"""The listener: wake-ups come through, and when they do not, it is said and costs latency only."""

import asyncio
import logging
import statistics
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest
from tests.support.proxy import proxied
from tests.support.stopwatch import Stopwatch, taken_between
from tests.support.waiting import until
from tests.support.workers import Inbox
from tests.wake.conftest import Ear, Flags

from holdfast import Holdfast
from holdfast.db.database import Database
from holdfast.loading import served
from holdfast.model.occurrences import Occurrences
from holdfast.worker.embedded import EmbeddedWorker
from holdfast.worker.leases import ledger as marks
from holdfast.worker.leases.keeper import Kept
from holdfast.worker.leases.ledger import Ledger
from holdfast.worker.settings import WorkerSettings
from holdfast.worker.waking import listener, posts
from holdfast.worker.waking.listener import Listener

pytestmark = pytest.mark.direct  # LISTEN itself: there is none behind a pooler

NEVER = 3600.0
"""A pause so long that only a wake-up ends it."""
WOKEN = 5.0
"""Seconds, where some milliseconds are promised."""


@asynccontextmanager
async def worker(hf: Holdfast, poll: float = NEVER, notify: bool = True) -> AsyncIterator[EmbeddedWorker]:
    settings = WorkerSettings(
        poll_min=min(0.005, poll), poll_max=poll, lease=3, housekeeping=60, heartbeat=0.2, notify=notify
    )
    worker = EmbeddedWorker(served(hf), settings)
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop()


def listening(inbox: Inbox) -> list[bool]:
    rows = inbox.rows("select metadata -> 'counters' -> 'listening' as it from holdfast.workers where status = 'alive'")
    return [row["it"] for row in rows]


async def test_a_wake_up_ends_an_endless_pause(hf: Holdfast, inbox: Inbox, flags: Flags) -> None:
    @hf.task
    async def t() -> None:
        pass

    async with worker(hf) as it:
        await until(lambda: flags.count("asleep") == 1)
        assert flags.count("awake") == 0
        await until(lambda: listening(inbox) == [True])
        for done in range(1, 6):
            await t.enqueue()
            await until(lambda done=done: it.engine.tally.counters.completed == done, WOKEN)  # type: ignore[misc]
    await until(lambda: flags.count("asleep") == 0)


async def test_a_job_that_comes_while_a_fruitless_look_is_under_way_is_not_missed(
    hf: Holdfast, inbox: Inbox, flags: Flags, monkeypatch: pytest.MonkeyPatch
) -> None:
    @hf.task
    async def t() -> None:
        pass

    async with worker(hf) as it:
        await until(lambda: flags.count("asleep") == 1)
        claim, looks = it.engine.claimer.claim, 0

        async def and_then_work_comes(limit: int):  # type: ignore[no-untyped-def]
            nonlocal looks
            looks += 1
            batch = await claim(limit)
            if looks == 1:
                await t.enqueue()
                with suppress(AssertionError):  # one that is late with its poll counts as busy, and nobody calls it
                    await until(lambda: it.engine.claiming.woken.is_set(), 2)
                it.engine.wake()
            return batch

        monkeypatch.setattr(it.engine.claimer, "claim", and_then_work_comes)
        inbox.one("select holdfast.wake('default')")
        await until(lambda: it.engine.tally.counters.completed == 1, WOKEN)


@pytest.mark.parametrize("how", ["dropped", "not asked for", "pooler"])
async def test_without_wake_ups_polling_keeps_its_bound(
    hf: Holdfast, inbox: Inbox, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    poll = 0.5
    app = Holdfast(inbox.url, pooler=True) if how == "pooler" else hf

    @app.task
    async def t() -> None:
        pass

    async with worker(app, poll, notify=how != "not asked for") as it:
        if how == "dropped":
            monkeypatch.setattr(it.engine, "wake", lambda *_: None)
            await until(lambda: listening(inbox) == [True])
        else:
            await until(lambda: listening(inbox) == [False])
        for _ in range(5):
            done = it.engine.tally.counters.completed
            await t.enqueue()
            await until(lambda done=done: it.engine.tally.counters.completed > done)  # type: ignore[misc]
    rows = inbox.rows("select available_at, claimed_at from holdfast.archive")
    waits = [taken_between(row["available_at"], row["claimed_at"]) for row in rows]
    assert len(waits) == 5
    assert max(wait.own for wait in waits) <= poll * 1.25 + 1, "; ".join(map(str, waits))
    if app is not hf:
        await app.close()


async def test_a_listener_that_is_killed_comes_back(
    hf: Holdfast, inbox: Inbox, flags: Flags, caplog: pytest.LogCaptureFixture
) -> None:
    @hf.task
    async def t() -> None:
        pass

    async with worker(hf) as it:
        for killed in range(3):
            await until(lambda: flags.count("asleep") == 1)
            (session,) = inbox.rows(
                "select pid, pg_terminate_backend(pid, 10000) as ended from pg_stat_activity"
                " where application_name = 'holdfast listen' and datname = current_database()"
            )
            assert session["ended"]
            locks = "select count(*) from pg_locks where locktype = 'advisory' and pid = %s"
            assert inbox.one(locks, session["pid"]) == 0, "the flag went with the session"
            await until(lambda killed=killed: caplog.text.count("listening for wake-ups") == killed + 2)  # type: ignore[misc]
        await until(lambda: flags.count("asleep") == 1)
        await t.enqueue()
        await until(lambda: it.engine.tally.counters.completed == 1, WOKEN)
        await until(lambda: listening(inbox) == [True])
    assert caplog.text.count("no wake-ups for now") == 3
    assert "polling continues" in caplog.text


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "holdfast.listener")


async def test_a_deaf_listener_is_noticed_said_and_tried_again(
    inbox: Inbox, flags: Flags, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # As behind a pooler that nobody told us of: every statement is answered, and no notification comes.
    monkeypatch.setattr(listener, "PROBE_EVERY", 0.3)
    monkeypatch.setattr(listener, "PROBE_WITHIN", 0.5)
    async with proxied(inbox.url) as proxy:
        proxy.deaf = True
        hf = Holdfast(proxy.url)

        @hf.task
        async def t() -> None:
            pass

        async with worker(hf, poll=0.2) as it:
            said = "LISTEN receives no notifications: its own notification did not come back"
            await until(lambda: said in caplog.text)
            assert "polling continues" in caplog.text
            await until(lambda: listening(inbox) == [False])
            await t.enqueue()
            await until(lambda: it.engine.tally.counters.completed == 1)
            proxy.deaf = False
            await until(lambda: listening(inbox) == [True])
            await until(lambda: flags.count("asleep") == 1)
            warned = caplog.text.count("LISTEN receives no notifications")
            proxy.deaf = True  # from now on, in a session that heard well
            await until(lambda: caplog.text.count("LISTEN receives no notifications") > warned)
            await until(lambda: listening(inbox) == [False])
            proxy.deaf = False
            await until(lambda: listening(inbox) == [True])
        await hf.close()


# Whom it wakes, by ledgers of the test's own


class Sleeper:
    """A worker of which there is only the ledger."""

    def __init__(self, state: int, stopped: bool = False, answers: bool = True) -> None:
        self.ledger = Ledger()
        self.now(state)
        self.woken = 0
        self.posts: list[int] = []
        self.stopped = stopped
        self.answers = answers
        """Does it poll when it is woken?"""
        self.kept = Kept(self.ledger, read_notices=lambda: None, wake=self._wake, stopped=lambda: self.stopped)

    def now(self, state: int, look_in: float = NEVER, room: int = 1, post: int = 0) -> None:
        self.ledger.post(post).set_state(state, look_in, room)

    def _wake(self, post: int) -> None:
        self.woken += 1
        self.posts.append(post)
        if self.answers:
            self.ledger.post(post).note_poll()


class FlickeringPost(marks.Post):
    looks = 0

    @property
    def state(self) -> int:
        self.looks += 1
        return marks.AWAKE if self.looks % 2 else marks.BUSY


class Flickering(Ledger):
    """Says another thing at every look, so that nothing it says can last, however late the looks come."""

    def __init__(self) -> None:
        super().__init__()
        self.only = FlickeringPost(self._map, marks._AT_POSTS)

    def post(self, number: int = 0) -> marks.Post:
        return self.only

    @property
    def looks(self) -> int:
        return self.only.looks


@asynccontextmanager
async def host(
    inbox: Inbox,
    *sleepers: Sleeper,
    queues: Sequence[Sequence[str]] = (("default",),),
    workers: list[Kept] | None = None,
) -> AsyncIterator[Listener]:
    kept = [sleeper.kept for sleeper in sleepers] if workers is None else workers
    it = Listener(Database(inbox.url), queues, kept, lambda: None, Occurrences())
    running = asyncio.create_task(it.run())
    try:
        await until(lambda: it.listening)
        yield it
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def woken(*sleepers: Sleeper) -> list[int]:
    return [sleeper.woken for sleeper in sleepers]


async def calm(it: Listener, *sleepers: Sleeper) -> None:
    """Producers see that somebody sleeps, and whatever was called before is over; from here on we count anew."""
    await until(lambda: bool(it._up))
    for _ in range(2):
        await asyncio.sleep(2 * posts.AFTERWARDS)
        await until(lambda: not any(post._called or post._jobs for post in it._posts))
    for sleeper in sleepers:
        sleeper.woken = 0


async def test_one_sleeper_per_notification_in_turn(inbox: Inbox) -> None:
    sleepers = [Sleeper(state) for state in (marks.BUSY, marks.ASLEEP, marks.AWAKE, marks.ASLEEP)]
    stopped = Sleeper(marks.ASLEEP, stopped=True)
    async with host(inbox, stopped, *sleepers) as it:
        await calm(it, *sleepers)
        for told in range(4):
            inbox.one("select pg_notify(holdfast.channel(), ':default')")
            await until(lambda told=told: sum(woken(*sleepers)) == told + 1)  # type: ignore[misc]
            await asyncio.sleep(2 * posts.AFTERWARDS)
        assert woken(*sleepers[::2]) == [0, 0], "neither the busy nor the wakeful one"
        assert all(woken(*sleepers[1::2])), "in turn"


async def test_a_post_that_sleeps_is_woken_though_another_of_the_same_worker_is_awake(
    inbox: Inbox, flags: Flags
) -> None:
    sleeper = Sleeper(marks.AWAKE)
    sleeper.now(marks.ASLEEP, post=1)
    async with host(inbox, sleeper, queues=[["default"], ["out.bus"]]) as it:
        await until(lambda: (flags.count("awake"), flags.count("asleep", "out.bus")) == (1, 1))
        assert (flags.count("asleep"), flags.count("awake", "out.bus")) == (0, 0)
        assert inbox.one("select holdfast.wake('default')") is False
        assert inbox.one("select holdfast.wake('out.bus')") is True
        await until(lambda: sleeper.posts == [1])
        assert sleeper.ledger.post(1).reachable
        assert not sleeper.ledger.post(0).reachable
        assert it.wakes == 1


async def test_as_many_sleepers_are_called_as_there_is_work_for(inbox: Inbox) -> None:
    sleepers = [Sleeper(marks.ASLEEP) for _ in range(4)]
    async with host(inbox, *sleepers) as it:
        await calm(it, *sleepers)
        for payload in (":mail", ":default", ":default", ":default"):  # in one read
            it._hear(None, 0, "", payload)
        await until(lambda: sorted(woken(*sleepers)) == [0, 1, 1, 1])
        await calm(it, *sleepers)
        inbox.one("select pg_notify(holdfast.channel(), ':default'), pg_notify(holdfast.channel(), '+39:default')")
        await until(lambda: woken(*sleepers) == [1, 1, 1, 1])
        for sleeper in sleepers:
            sleeper.now(marks.ASLEEP, room=20)
        await calm(it, *sleepers)
        for payload in (":default", "+24:default"):
            it._hear(None, 0, "", payload)
        it._posts[0]._call()
        assert sorted(woken(*sleepers)) == [0, 0, 1, 1], "two have room for 25"
        it._hear(None, 0, "", ":default")
        it._posts[0]._call()
        assert sorted(woken(*sleepers)) == [0, 0, 1, 2], "there is room for it, but the look may be over already"


async def test_one_that_was_just_woken_is_woken_again_for_a_job_for_which_nobody_is_left(inbox: Inbox) -> None:
    # Its poll may be over: another host was faster, and it sleeps again.
    only = Sleeper(marks.ASLEEP)
    async with host(inbox, only) as it:
        await calm(it, only)
        for told in range(1, 4):
            it._hear(None, 0, "", ":default")
            it._posts[0]._call()
            assert only.woken == told
        only.now(marks.BUSY)
        it._hear(None, 0, "", ":default")
        it._posts[0]._call()
        assert only.woken == 3, "it polls when it has room"


@pytest.mark.parametrize("stops", [True, False], ids=["stops a moment later", "blocked by a handler"])
async def test_another_is_woken_in_place_of_one_that_does_not_poll(inbox: Inbox, stops: bool) -> None:
    # A process that has a SIGSTOP before it counts as stopped only when it gets a CPU core, which can take longer than
    # the listener waits before it checks.
    silent, other = Sleeper(marks.ASLEEP, answers=False), Sleeper(marks.ASLEEP)
    async with host(inbox, silent, other) as it:
        await calm(it, silent, other)
        while not silent.woken:
            other.woken = 0
            it._hear(None, 0, "", ":default")
            await asyncio.sleep(2 * posts.AFTERWARDS)
        silent.stopped = stops
        await until(lambda: other.woken == 1)
        for _ in range(4):
            other.woken = 0
            it._hear(None, 0, "", ":default")
            await until(lambda: other.woken == 1)
            await asyncio.sleep(2 * posts.AFTERWARDS)
        assert silent.woken == 1, "until it polls, others are woken"
        silent.stopped, silent.answers = False, True
        silent.ledger.post().note_poll()
        await until(lambda: silent.woken == 2)  # for all that it was passed over for
        await calm(it, silent, other)
        while not silent.woken:
            it._hear(None, 0, "", ":default")
            await asyncio.sleep(2 * posts.AFTERWARDS)


async def test_another_is_woken_in_place_of_one_that_has_died(inbox: Inbox) -> None:
    dying, other = Sleeper(marks.ASLEEP, answers=False), Sleeper(marks.ASLEEP)
    workers = [dying.kept, other.kept]
    async with host(inbox, dying, other, workers=workers) as it:
        await calm(it, dying, other)
        while not dying.woken:
            other.woken = 0
            it._hear(None, 0, "", ":default")
            await asyncio.sleep(2 * posts.AFTERWARDS)
        workers.remove(dying.kept)
        dying.ledger.close()
        await until(lambda: other.woken == 1)


@pytest.mark.parametrize("how", ["no room", "stopped", "died"])
async def test_a_sleeper_is_woken_when_the_one_that_was_awake_does_not_poll_any_more(
    inbox: Inbox, flags: Flags, how: str
) -> None:
    # Producers notified nobody while it was awake.
    awake, sleeper = Sleeper(marks.AWAKE), Sleeper(marks.ASLEEP)
    workers = [awake.kept, sleeper.kept]
    async with host(inbox, awake, sleeper, workers=workers):
        await until(lambda: (flags.count("asleep"), flags.count("awake")) == (1, 1))
        assert inbox.one("select holdfast.wake('default')") is False
        if how == "no room":
            awake.now(marks.BUSY)
        elif how == "stopped":
            awake.now(marks.AWAKE, look_in=0)
        else:
            workers.remove(awake.kept)
            awake.ledger.close()
        await until(lambda: flags.count("awake") == 0)
        await until(lambda: sleeper.woken > 0)


async def test_one_is_woken_when_the_one_that_was_awake_has_fallen_asleep(inbox: Inbox, flags: Flags, ear: Ear) -> None:
    # It may have read its flags just before "awake" was raised, and producers notified nobody since then.
    awake, sleeper = Sleeper(marks.AWAKE), Sleeper(marks.ASLEEP)
    async with host(inbox, awake, sleeper):
        await until(lambda: (flags.count("asleep"), flags.count("awake")) == (1, 1))
        awake.now(marks.ASLEEP)
        await until(lambda: flags.count("awake") == 0)
        await until(lambda: sum(woken(awake, sleeper)) == 1)
        await asyncio.sleep(4 * listener.COMMIT)
        assert sum(woken(awake, sleeper)) == 1
        assert await ear.told() == [], "no other host"


async def test_flags_follow_what_lasts_and_cost_nothing_while_nothing_changes(inbox: Inbox, flags: Flags) -> None:
    sleepers = [Sleeper(marks.ASLEEP), Sleeper(marks.ASLEEP)]
    async with host(inbox, *sleepers):
        await until(lambda: (flags.count("asleep"), flags.count("awake")) == (1, 0))
        sleepers[0].now(marks.AWAKE)
        await until(lambda: (flags.count("asleep"), flags.count("awake")) == (1, 1))
        sleepers[1].now(marks.BUSY)
        await until(lambda: (flags.count("asleep"), flags.count("awake")) == (0, 1))
        sleepers[0].now(marks.AWAKE, look_in=0)  # and something keeps it from looking
        await until(lambda: (flags.count("asleep"), flags.count("awake")) == (0, 0))
        spoke = (
            "select {} from pg_stat_activity"
            " where application_name = 'holdfast listen' and datname = current_database()"
        )
        # The locks go before the statement ends, and then it calls others, because nobody is awake any more.
        await until(lambda: inbox.one(spoke.format("state = 'idle' and query like '%%holdfast.wake(%%'")))
        before = inbox.one(spoke.format("state_change"))
        sleepers[1].kept.ledger = flickering = Flickering()
        await until(lambda: flickering.looks >= 40)
        assert inbox.one(spoke.format("state_change")) == before, "not one statement"


async def test_a_flag_that_a_producer_is_asking_for_is_raised_in_the_end(inbox: Inbox, flags: Flags) -> None:
    producer = await Database(inbox.url).connect("producer")
    await producer.execute("select pg_advisory_lock(holdfast.flag('asleep', 'default'))")
    async with host(inbox, Sleeper(marks.ASLEEP)):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await until(lambda: flags.count("asleep") == 1)
        await producer.execute("select pg_advisory_unlock(holdfast.flag('asleep', 'default'))")
        await until(lambda: flags.count("asleep") == 1)
    await producer.close()


async def test_news_from_the_registry_reach_a_worker_before_its_heartbeat(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task
    async def t() -> None:
        pass

    worker = EmbeddedWorker(served(hf), WorkerSettings(lease=3))
    await worker.start()
    await until(lambda: listening(inbox) == [True])  # the heartbeat has just been: the next one is ten seconds away
    inbox.rows("update holdfast.workers set status = 'draining'")
    inbox.one("select pg_notify(holdfast.channel(), '!')")
    await until(worker.engine._draining.is_set, 5)
    await worker.stop()


async def test_under_load_producers_notify_next_to_nobody(hf: Holdfast, inbox: Inbox, flags: Flags, ear: Ear) -> None:
    @hf.task
    async def t(n: int) -> None:
        pass

    await flags.up("asleep")  # the others sleep, all the time
    settings = WorkerSettings(lease=10, housekeeping=60)
    busy = EmbeddedWorker(served(hf), settings)
    sent = 0

    async def produce(until_: int) -> None:
        nonlocal sent
        while sent < until_:
            sent += 1
            await t.enqueue(sent)

    shares = []
    await busy.start()
    try:
        while not flags.count("awake"):
            await asyncio.gather(*(produce(sent + 20) for _ in range(12)))
        for _ in range(5):  # a machine that stands still for a moment stops the stream, and then it is right to call
            await ear.told()
            before, watch = sent, Stopwatch()
            await asyncio.gather(*(produce(before + 600) for _ in range(12)))
            taken = watch.taken()
            shares.append(len(await ear.told()) / (sent - before) - taken.seconds / taken.elapsed)
        await until(lambda: busy.engine.tally.counters.completed == sent)
    finally:
        await busy.stop()
    # While others have the cores, the stream stops, and the worker may fall asleep; if flags were not seen, every
    # producer would notify, in all of the rounds.
    assert min(shares) <= 0.02 and statistics.median(shares) <= 0.25, shares
