"""Random programs under crashes, clocks, signals, cancels, pauses, drains and edits, against what must always hold.

HOLDFAST_LONG=1 plays many more.
"""

import asyncio
import os
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.context import TxContext
from holdfast.errors import LeaseLost
from holdfast.flow.flow import Flow
from holdfast.flow.machine import StepCall
from holdfast.model.flow import FlowEnd
from holdfast.model.outcome import AttemptFailed, Completed, Snooze
from tests.flow.memory import Instance

EXAMPLES = 20_000 if os.environ.get("HOLDFAST_LONG") == "1" else 250

Program = list[Any]
"""Operations: a kind, or a list: branches side by side."""

KINDS = (
    ["step"] * 4
    + ["undoable"] * 3
    + ["tx", "fails once", "snoozes once", "sleep", "wait", "timed wait", "now", "caught"]
)

programs: st.SearchStrategy[Program] = st.recursive(
    st.lists(st.sampled_from(KINDS), max_size=5),
    lambda inner: st.lists(
        st.one_of(st.sampled_from(KINDS), st.lists(inner, min_size=1, max_size=3)), min_size=1, max_size=4
    ),
    max_leaves=6,
)
actions = st.lists(
    st.one_of(
        st.just(("run",)),
        st.tuples(st.just("crash"), st.integers(0, 5), st.booleans()),
        st.tuples(st.just("clock"), st.sampled_from([1, 4, 5, 60])),
        st.just(("signal",)),
        st.tuples(st.just("edit"), st.sampled_from(["insert", "remove", "rename", "swap"]), st.integers(0, 5)),
        st.sampled_from([("pause",), ("drain",), ("cancel",)]),
    ),
    max_size=12,
)


class World:
    """An instance that plays a program, and what is known about it."""

    def __init__(self, program: Program) -> None:
        self.program = self._named(program, "")
        self.ran = 0
        self.edits = 0
        self.tried: set[str] = set()
        self.recorded: dict[tuple[str, int], bytes] = {}
        self.consumed: list[Any] = []
        self.instance = Instance(self._code())
        self.instance.on_call = self._called

    def _named(self, program: Program, path: str) -> Program:
        return [
            (op, f"{op} {path}{at}")
            if isinstance(op, str)
            else [self._named(branch, f"{path}{at}.{b}.") for b, branch in enumerate(op)]
            for at, op in enumerate(program)
        ]

    def _code(self) -> Any:
        program = self.program

        async def code(flow: Flow) -> int:
            self.consumed = []
            return await self._play(flow, program)

        return code

    def _called(self, call: StepCall) -> None:
        """A recorded step never runs again."""
        row = self.instance.steps.get((call.name, call.n))
        assert row is None or row.status == "open", f"{call.shown} runs again"
        self.ran += 1

    def _count(self) -> int:
        return self.ran

    async def _in_transaction(self, ctx: TxContext) -> int:
        return self.ran

    async def _play(self, flow: Flow, program: Program) -> int:
        total = 0
        for op in program:
            if isinstance(op, list):
                total += sum(await flow.gather(*(self._play(flow, branch) for branch in op)))
                continue
            kind, name = op
            match kind:
                case "step":
                    total += self._known(name, await flow.step(name, self._count))
                case "tx":
                    total += self._known(name, await flow.step(name, self._in_transaction))
                case "undoable":
                    total += self._known(name, await flow.step(name, self._count, undo=nothing))
                case "fails once" | "snoozes once":
                    total += self._known(name, await flow.step(name, self._at_second_try, name))
                case "caught":
                    try:
                        await flow.step(name, fails, max_attempts=1, catch=True)
                    except Exception:
                        total += 1
                case "sleep":
                    await flow.sleep(name, 5)
                    wake_at = self.instance.steps[name, 0].wake_at
                    assert wake_at is not None and wake_at <= self.instance.now, "too early"
                case "wait" | "timed wait":
                    taken = await flow.wait_any(name, ["go"], timeout=5 if kind == "timed wait" else None)
                    if taken is not None:
                        self.consumed.append(taken[1])
                case _:
                    await flow.now()
        return total

    async def _at_second_try(self, name: str) -> Any:
        if name in self.tried:
            return self.ran
        self.tried.add(name)
        if name.startswith("fails"):
            raise ValueError
        return Snooze5

    def _known(self, name: str, value: int) -> int:
        raw = self.recorded.get((name, 0))
        assert raw is None or raw == str(value).encode(), f"{name} has changed"
        return value

    async def run(self) -> Any:
        instance = self.instance
        ran, before = self.ran, dict(instance.steps)
        try:
            end = await instance.run(self._code())
        except LeaseLost:
            end = None
        finally:
            instance.journal_raises, instance.draining = None, False
        if isinstance(end, AttemptFailed):
            assert end.error == "HistoryMismatch", end
            assert self.ran == ran and instance.steps == before, "something ran although the code does not fit"
        for key, row in instance.steps.items():
            if row.status == "done":
                assert self.recorded.setdefault(key, bytes(row.result)) == bytes(row.result)
        return end

    def edit(self, how: str, at: int) -> None:
        self.edits += 1
        program = self.program
        at %= max(len(program), 1)
        match how:
            case "insert":
                self.program = [*program[:at], ("step", f"new {self.edits}"), *program[at:]]
            case "remove":
                self.program = program[:at] + program[at + 1 :]
            case "swap":
                self.program = [*program[:at], *reversed(program[at : at + 2]), *program[at + 2 :]]
            case _ if program and not isinstance(program[at], list):
                self.program = [
                    *program[:at],
                    (program[at][0], f"{program[at][0]} renamed {self.edits}"),
                    *program[at + 1 :],
                ]


Snooze5 = Snooze(5)


def nothing(*_: Any) -> None: ...


def fails() -> None:
    raise ValueError


async def play(program: Program, plan: list[Any]) -> None:
    world = World(program)
    instance = world.instance
    end = await world.run()
    for action in plan:
        if isinstance(end, FlowEnd):
            break
        match action:
            case ("crash", after, stored):
                instance.journal_raises, instance.answer_lost = LeaseLost("crash"), stored
                instance.writes_until_then = after
            case ("clock", seconds):
                instance.later(seconds)
                continue
            case ("signal",):
                instance.signal("go", len(instance.signals))
                continue
            case ("edit", how, at):
                kept = world.program
                world.edit(how, at)
                instance.paused = False  # otherwise nothing is replayed
                end = await world.run()
                if isinstance(end, AttemptFailed):
                    world.program = kept
                continue
            case ("pause",):
                instance.paused = not instance.paused
                continue
            case ("drain",):
                instance.draining = True
            case ("cancel",):
                instance.cancelled = True
        end = await world.run()
    instance.paused = False
    for _ in range(200):  # to its end
        if isinstance(end, FlowEnd):
            break
        instance.later(5)
        instance.signal("go", len(instance.signals))
        end = await world.run()
    assert isinstance(end, FlowEnd), end
    if isinstance(end.end, Completed):
        taken = sorted(int(bytes(signal.payload)) for signal in instance.signals if signal.n in instance.taken)
        assert sorted(world.consumed) == taken
        assert not any(row.kind == "undo" for row in instance.steps.values())
    else:
        assert instance.cancelled
        rows = sorted(instance.steps.values(), key=lambda row: row.ordinal)
        done = [row.name for row in rows if row.name.startswith("undoable") and row.status == "done"]
        assert [row.name for row in rows if row.name.startswith("undo:undoable")] == [
            f"undo:{name}" for name in reversed(done)
        ]


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(programs, actions)
def test_what_always_holds(program: Program, plan: list[Any]) -> None:
    asyncio.run(play(program, plan))
