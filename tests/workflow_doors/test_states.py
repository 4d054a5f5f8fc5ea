"""Instances on the real tables against a model in Python: random starts, runs, crashes, sleeps, failures, signals,
cancels, pauses, restarts and deploys. After each of them, both must agree: on states, steps, calls of functions and
effects.

A wake-up that is lost shows as an instance that the model has run and the tables have not. HOLDFAST_LONG=1 plays more.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from tests.support.workers import Inbox

from holdfast import Backoff, Flow, Holdfast, NotFound, TxContext
from holdfast.testing import die_at, drain_sync, frozen_clock

LONG = os.environ.get("HOLDFAST_LONG") == "1"

GRACE, PATIENCE = 60, 300
TIMERS = {"grace": GRACE, "shipped": PATIENCE, "settle": GRACE}
AGAIN = Backoff(base=GRACE, factor=1, jitter=0)
CALLS: dict[str, list[str]] = {}
"""By instance: the functions that were called."""
FAIL, CANCEL, BOTH_OF_THEM = "fail", "cancel", "cancel and fail"
TROUBLES = [[], [], [FAIL], [FAIL, FAIL], [CANCEL], [BOTH_OF_THEM], [FAIL, BOTH_OF_THEM], [FAIL, FAIL, BOTH_OF_THEM]]
TROUBLE: dict[str, list[str]] = {}
"""By instance: what its next calls of `pack` do, beside their work."""
CANCELS: list[Any] = []
"""Cancels an instance, from inside its step."""


def note(id: str, what: str) -> None:
    CALLS.setdefault(id, []).append(what)


async def check(id: str) -> None:
    note(id, "check")


def reserve(id: str) -> None:
    note(id, "reserve")


def release(id: str) -> None:
    note(id, "undo:reserve")


async def charge(ctx: TxContext, id: str) -> None:
    note(id, "charge")
    await ctx.tx.execute("insert into effects values ($1, 1)", ctx.job_id)


async def refund(ctx: TxContext, id: str) -> None:
    note(id, "undo:charge")
    await ctx.tx.execute("insert into effects values ($1, -1)", ctx.job_id)


def pack(id: str) -> None:
    note(id, "pack")
    troubles = TROUBLE.get(id)
    trouble = troubles.pop(0) if troubles else ""
    if CANCEL in trouble:
        CANCELS[-1](id)
    if FAIL in trouble:
        raise ValueError("no luck")


async def notify(id: str) -> None:
    note(id, "notify")


def code(first: str, checks: bool) -> Any:
    async def order(flow: Flow) -> str:
        if checks:
            await flow.step("check", check, flow.id)
        await flow.step(first, reserve, flow.id, undo=release)
        await flow.step("charge", charge, flow.id, undo=refund)
        await flow.step("pack", pack, flow.id, max_attempts=2, retry=AGAIN)
        await flow.sleep("grace", GRACE)
        parcel = await flow.wait("shipped", str, timeout=PATIENCE)
        await flow.sleep("settle", GRACE)
        await flow.step("notify", notify, flow.id)
        return parcel or "late"

    return order


@dataclass(frozen=True)
class Deploy:
    """Code that workers have: which versions, and whether it fits what older code has recorded."""

    name: str
    versions: tuple[int, ...]
    first: str = "reserve"

    def app(self, url: str) -> Holdfast:
        app = Holdfast(url)
        newest = max(self.versions)
        order = app.workflow(name="order", version=newest)(code(self.first, checks=newest == 2))
        if self.versions == (1, 2):
            order.version(1)(code(self.first, checks=False))
        return app


BOTH = Deploy("both", (1, 2))
DEPLOYS = [Deploy("1", (1,)), Deploy("2", (2,)), BOTH, Deploy("renamed", (1, 2), "book")]
STEPS = {1: ["reserve", "charge", "pack", "grace", "shipped", "settle", "notify"]}
STEPS[2] = ["check", *STEPS[1]]
ACTIONS = [
    *["start"] * 2, *["run"] * 4, *["crash"] * 3, *["later"] * 5, *["signal"] * 3, *["pause"] * 2,
    "cancel", "restart", "deploy", "deploy",
]  # fmt: skip
UNDO = ("reserve", "charge")


@dataclass
class Model:
    """What is expected of one instance."""

    version: int
    rows: list[tuple[str, str]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    effects: list[int] = field(default_factory=list)
    parcels: list[str] = field(default_factory=list)
    """Signals that nothing has taken, in order."""
    taken: str | None = None
    known: set[str] = field(default_factory=set)
    due: bool = True
    wake_at: datetime | None = None
    waits: str | None = None
    begun: bool = False
    cancelled: bool = False
    paused: bool = False
    stopped: bool = False
    trouble: list[str] = field(default_factory=list)
    attempts: int = 0
    """Of `pack`, since it was begun or resumed."""
    dead: bool = False
    ended: str | None = None
    result: str | None = None

    def state(self, now: datetime) -> str:
        if self.ended is not None:
            return self.ended
        if self.stopped:
            return "needs attention"
        if self.dead:
            return "dead letter"
        if self.paused:
            return "paused"
        if self.is_due(now):
            return "queued"
        return {"shipped": "waiting", "pack": "retrying"}.get(str(self.waits), "sleeping")

    def is_due(self, now: datetime) -> bool:
        at_rest = self.ended is None and not self.stopped and not self.paused and not self.dead
        return at_rest and (self.due or (self.wake_at is not None and self.wake_at <= now))

    def run(self, deploy: Deploy, now: datetime, crash: tuple[str, str] | None) -> None:
        if not self.is_due(now) or self.version not in deploy.versions:
            return
        self.begun, self.due, self.waits = True, False, None
        names = [deploy.first if name == "reserve" else name for name in STEPS[self.version]]
        recorded = [name for name, _ in self.rows]
        if recorded != names[: len(recorded)]:
            self.stopped = True
        elif self.cancelled:
            self._undo(crash)
        else:
            self._go_on(names, now, crash)

    def _go_on(self, names: list[str], now: datetime, crash: tuple[str, str] | None) -> None:
        while len(self.rows) < len(names) or self.rows[-1][1] == "open":
            is_open = bool(self.rows) and self.rows[-1][1] == "open"
            name = names[len(self.rows) - is_open]
            if name == "pack":
                if is_open and self.wake_at is not None and self.wake_at > now:
                    self.waits = name
                    return
                del self.rows[len(self.rows) - is_open :]
                if not self._pack(now, crash):
                    return
                continue
            if name not in TIMERS:
                self._call(name, crash)
                continue
            became = self._waited(name, is_open, now)
            self.rows[len(self.rows) - is_open :] = [(name, became)]
            if became == "open":
                if not is_open:
                    self.wake_at = now + timedelta(seconds=TIMERS[name])
                self.waits = name
                return
            self.wake_at = None
        self.ended, self.result = "completed", self.taken or "late"

    def _pack(self, now: datetime, crash: tuple[str, str] | None) -> bool:
        """Does the run go on?"""
        trouble = self.trouble.pop(0) if self.trouble else ""
        self._call("pack", crash)
        self.attempts += 1
        self.cancelled |= CANCEL in trouble
        if FAIL in trouble:
            self.rows[-1] = ("pack", "open")
        elif CANCEL in trouble:
            self.rows.append(("grace", "open"))  # it hears of the cancel when it is parked
        if self.cancelled:
            self._undo(crash)
        elif FAIL in trouble and self.attempts < 2:
            self.waits, self.wake_at = "pack", now + timedelta(seconds=GRACE)
        elif FAIL in trouble:
            self.dead = True
        else:
            self.wake_at = None
            return True
        return False

    def _waited(self, name: str, is_open: bool, now: datetime) -> str:
        if name == "shipped" and self.parcels:
            self.taken = self.parcels.pop(0)
            return "done"
        if is_open and self.wake_at is not None and self.wake_at <= now:
            return "timed_out" if name == "shipped" else "done"
        return "open"

    def _call(self, name: str, crash: tuple[str, str] | None) -> None:
        what = "reserve" if name == "book" else name
        self.calls += [what] * (2 if crash == (name, "after") else 1)
        if what.endswith("charge"):
            self.effects.append(-1 if what.startswith("undo:") else 1)
        self.rows.append((name, "done"))

    def _undo(self, crash: tuple[str, str] | None) -> None:
        done = [name for name, status in self.rows if status == "done" and name in (*UNDO, "book")]
        if done:
            self.rows.append(("undo:", "open"))
        for name in reversed(done):
            self._call(f"undo:{name}", crash)
            self.calls[-1] = self.calls[-1].replace("book", "reserve")
        self.ended = "cancelled"

    def restart(self, step: str) -> int:
        at = [name for name, _ in self.rows].index(step)
        dropped = len(self.rows) - at
        if ("shipped", "done") in self.rows[at:]:
            assert self.taken is not None
            self.parcels.insert(0, self.taken)
            self.taken = None
        del self.rows[at:]
        self.due, self.wake_at, self.waits = True, None, None
        self.cancelled = self.paused = self.stopped = self.dead = False
        if "pack" not in [name for name, _ in self.rows]:
            self.attempts = 0
        return dropped


class Orders(RuleBasedStateMachine):
    number = 0

    def __init__(self, inbox: Inbox, apps: dict[str, Holdfast], clock: Any) -> None:
        super().__init__()
        self.inbox, self.apps, self.clock = inbox, apps, clock
        self.deploy = DEPLOYS[0]
        self.models: dict[str, Model] = {}

    @property
    def app(self) -> Holdfast:
        return self.apps[self.deploy.name]

    def pick(self, which: int) -> tuple[str, Model]:
        """The last one more often than the others: it has not ended."""
        return list(self.models.items())[max(len(self.models) - 1 - which, 0)]

    @initialize(trouble=st.sampled_from(TROUBLES))
    def start_first(self, trouble: list[str]) -> None:
        self.start(trouble)

    # One rule, with weights: of many rules, Hypothesis leaves out some in each example, and most instances would not
    # come far.
    @rule(what=st.sampled_from(ACTIONS), which=st.sampled_from([0, 0, 0, 1, 2]), detail=st.integers(0, 11))
    def act(self, what: str, which: int, detail: int) -> None:
        match what:
            case "start":
                self.start(TROUBLES[detail % len(TROUBLES)])
            case "run":
                self.run()
            case "crash":
                self.run((detail, ["before", "after", "recorded"][detail % 3]))
            case "later":
                self.wait([30, GRACE, GRACE, PATIENCE][detail % 4])
                self.run()
            case "signal":
                self.signal(which, "ab"[detail % 2])
            case "cancel":
                self.cancel(which)
            case "pause":
                self.pause_or_resume(which)
            case "restart":
                self.restart(which, detail)
            case _:
                self.deploy = [*DEPLOYS, BOTH, DEPLOYS[3]][detail % 6]

    def start(self, trouble: list[str]) -> None:
        if len([model for model in self.models.values() if model.ended is None]) == 2:
            return
        Orders.number += 1
        id = f"order:{Orders.number}"
        version = max(self.deploy.versions)
        order: Any = self.app.tasks["order"]
        assert not order.options(id=id).start_sync().existed
        assert order.options(id=id).start_sync().existed, "twice with one id is one instance"
        self.models[id] = Model(version, trouble=[*trouble])
        TROUBLE[id] = [*trouble]
        CANCELS[:] = [self.app.cancel_instance_sync]

    def run(self, crash: tuple[int, str] | None = None) -> None:
        with ExitStack() as stack:
            where = self._where(crash)
            for model in self.models.values():
                model.run(self.deploy, self.clock.now, where)
            if where is not None:
                armed = stack.enter_context(die_at(*where))  # type: ignore[arg-type]
                stack.callback(setattr, armed, "died", True)  # also if the step does not come
            drain_sync(self.app, errors="retry")

    def _where(self, crash: tuple[int, str] | None) -> tuple[str, str] | None:
        """A step at which exactly one instance would die; more than one crash would be another order of calls."""
        if crash is None:
            return None
        due = [m for m in self.models.values() if m.is_due(self.clock.now) and m.version in self.deploy.versions]
        if len(due) != 1 or due[0].trouble:
            return None
        names = [*STEPS[due[0].version], "undo:charge", "undo:reserve"]
        name = names[crash[0] % len(names)]
        return None if name in TIMERS else (name, crash[1])

    def wait(self, seconds: int) -> None:
        self.clock.advance_sync(seconds)

    def signal(self, which: int, key: str) -> None:
        id, model = self.pick(which)
        became = self.app.signal_sync(id, "shipped", f"parcel {key}", signal_id=key)
        if model.ended is not None:
            assert became == "ended"
        elif key in model.known:
            assert became == "known"
        else:
            model.known.add(key)
            model.parcels.append(f"parcel {key}")
            woken = model.waits == "shipped" and not model.paused and not model.stopped and not model.dead
            assert became == ("woken" if woken else "kept")
            model.due |= woken

    def cancel(self, which: int) -> None:
        id, model = self.pick(which)
        if model.ended is not None:
            with pytest.raises(NotFound):
                self.app.cancel_instance_sync(id)
            return
        became = self.app.cancel_instance_sync(id)
        if not model.begun:
            assert became == "cancelled"
            model.ended = "cancelled"
        else:
            assert became == "processing"
            model.cancelled, model.due, model.paused, model.stopped, model.dead = True, True, False, False, False

    def pause_or_resume(self, which: int) -> None:
        id, model = self.pick(which)
        if model.ended is not None:
            return
        if model.paused or model.stopped or model.dead:
            assert self.app.resume_instance_sync(id)
            if model.stopped or model.dead:
                model.waits, model.attempts = None, 0
            model.paused, model.stopped, model.dead, model.due = False, False, False, True
        else:
            assert not self.app.resume_instance_sync(id)
            self.app.pause_instance_sync(id)
            model.paused = True

    def restart(self, which: int, at: int) -> None:
        id, model = self.pick(which)
        if model.ended is not None or not model.rows:
            return
        step = model.rows[at % len(model.rows)][0]
        assert self.app.restart_instance_sync(id, step) == model.restart(step)

    @invariant()
    def both_agree(self) -> None:
        for id, model in self.models.items():
            found = self.app.instance_sync(id)
            assert found.state == model.state(self.clock.now), (id, model)
            assert [(step.name, step.status) for step in found.steps] == model.rows, (id, model)
            assert found.version == model.version
            assert CALLS.get(id, []) == model.calls, (id, model)
            effects = self.inbox.rows("select attempt from effects where job = %s", found.job_id)
            assert sorted(row["attempt"] for row in effects) == sorted(model.effects), (id, model)
            if model.ended == "completed":
                assert found.result == model.result, (id, model)

    def teardown(self) -> None:
        """Nothing is left to the next example; what is stored of these ends with them."""
        ids = [f"order:{n}" for n in range(Orders.number + 1)]
        self.inbox.rows("delete from holdfast.inbox where idempotency_key = any(%s)", ids)


@pytest.fixture
def apps(inbox: Inbox) -> Iterator[dict[str, Holdfast]]:
    made = {deploy.name: deploy.app(inbox.url) for deploy in DEPLOYS}
    yield made
    for app in made.values():
        app.close_sync()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_tables_and_model_agree(inbox: Inbox, apps: dict[str, Holdfast]) -> None:
    first = apps["1"]
    with frozen_clock(first) as clock:
        for app in apps.values():
            app._resolved = first._resolved  # the clock stands still for all of them
        order: Any = first.tasks["order"]
        order.options(id="order:0").start_sync()
        drain_sync(first)  # a worker has declared it
        run_state_machine_as_test(
            lambda: Orders(inbox, apps, clock),  # type: ignore[arg-type]  # anything that makes one
            settings=settings(
                max_examples=300 if LONG else 18,
                stateful_step_count=22,
                deadline=None,
                derandomize=True,
                phases=list(Phase) if LONG else [Phase.generate],
                suppress_health_check=list(HealthCheck),
            ),
        )
