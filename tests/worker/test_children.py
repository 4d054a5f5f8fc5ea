"""The processes that run handlers: started when needed, used again, ended when not."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from tests.apps import apart, witness
from tests.support.waiting import until

from holdfast import ConfigurationError, Holdfast, Timeout
from holdfast.context import Desk
from holdfast.model.ids import new_id
from holdfast.model.job import Claim
from holdfast.model.outcome import Completed, Failed, Outcome, Snoozed
from holdfast.worker import children as processes
from holdfast.worker import talk
from holdfast.worker.children import Children
from holdfast.worker.loading import address_of


class NoDesk:
    """These handlers ask for nothing, or for what fails."""

    async def enter_once(self, claim: Claim, key: str) -> bool:
        raise ConnectionError("the desk is closed")


def claim_of(kind: str, **arguments: Any) -> Claim:
    payload = msgspec.json.encode({"type": kind, **arguments}).decode()
    return Claim(new_id(), 1, 1, 1, 5, kind, 1, payload, "default", "", None, None)


def definitions() -> list[Any]:
    return [task.definition for task in apart.hf.tasks.values()]


@pytest.fixture
async def children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Children]:
    monkeypatch.setenv(witness.VARIABLE, str(tmp_path / "witness"))
    children = Children("tests.apps.apart:hf", definitions(), cast(Desk, NoDesk()))
    await children.start()
    yield children
    await children.close()


def run(children: Children, claim: Claim, reason: Exception | None = None) -> asyncio.Task[Outcome | None]:
    return asyncio.create_task(children.run(claim, lambda: reason, told=True))


async def pid_of(children: Children) -> int:
    outcome = await run(children, claim_of("where"))
    assert isinstance(outcome, Completed)
    assert outcome.result is not None
    return int(msgspec.json.decode(outcome.result)[0])


def living(children: Children) -> int:
    return sum(child.alive for child in children._all)


async def test_more_are_started_when_all_are_busy_and_end_when_they_idle(
    children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    running = [run(children, claim_of("hold_apart", gate=str(gate))) for _ in range(3)]
    await until(lambda: len(witness.read(tmp_path / "witness")) == 3)
    assert living(children) == 3
    gate.touch()
    assert [await one for one in running] == [Completed()] * 3
    monkeypatch.setattr(processes, "IDLE", 0.1)
    await until(lambda: living(children) == 1)
    await asyncio.sleep(1.2)
    assert (living(children), len(children._all)) == (1, 1), "one stays, and nothing is kept of the others"
    await pid_of(children)


async def test_one_that_died_while_it_idled_costs_no_attempt(children: Children) -> None:
    pid = await pid_of(children)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: living(children) == 0)
    assert await pid_of(children) != pid


async def test_an_attempt_that_cannot_begin_is_put_off(
    children: Children, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = await pid_of(children)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: living(children) == 0)
    monkeypatch.setattr(children, "_address", "nowhere:hf")
    assert await run(children, claim_of("where")) == Snoozed(1.0)
    assert "could not begin: app: there is no module 'nowhere'" in caplog.text
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    assert await run(children, claim_of("where")) == Snoozed(1.0)
    assert "No such file or directory: '/nonexistent/python'" in caplog.text
    monkeypatch.undo()
    await until(lambda: len(children._all) == 0)


async def test_cancelled_before_its_process_is_ready_it_leaves_it_to_the_next(
    children: Children, tmp_path: Path
) -> None:
    holding = run(children, claim_of("hold_apart", gate="/nonexistent/gate"))
    await until(lambda: bool(witness.read(tmp_path / "witness")))
    starting = run(children, claim_of("where"))
    await until(lambda: len(children._all) == 2)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await until(lambda: len(children._idle) == 1)
    await pid_of(children)
    assert (living(children), holding.done()) == (2, False)


async def test_whichever_is_free_first_takes_the_next_attempt(children: Children, tmp_path: Path) -> None:
    """Many short attempts at once do not start as many processes."""
    outcomes = await asyncio.gather(*(run(children, claim_of("square_apart", n=n)) for n in range(200)))
    squares = [Completed(f'{{"squared":{n * n}}}') for n in range(200)]
    assert outcomes == squares
    assert len(children._all) <= 1 + processes.CORES
    assert not children._waiting


async def test_a_second_cancellation_kills_at_once(
    children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "GIVE_IN", 60.0)
    holding = run(children, claim_of("hold_apart", gate="/nonexistent/gate"), Timeout("over"))
    await until(lambda: bool(witness.read(tmp_path / "witness")))
    holding.cancel()
    await asyncio.sleep(0.1)
    assert not holding.done()
    holding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holding
    await until(lambda: living(children) == 0)


async def test_what_the_desk_refuses_is_raised_in_the_handler(children: Children) -> None:
    outcome = await run(children, claim_of("once_apart"))
    assert isinstance(outcome, Failed)
    assert (outcome.error, outcome.message) == ("HoldfastError", "ConnectionError: the desk is closed")


async def test_an_application_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "START", 0.001)
    children = Children("tests.apps.apart:hf", definitions(), cast(Desk, NoDesk()))
    with pytest.raises(ConfigurationError, match=r"process=True: a process did not load tests.apps.apart:hf within"):
        await children.start()
    await children.close()


def test_frames_are_found_however_they_come() -> None:
    messages: list[msgspec.Struct] = [talk.GaveIn(), talk.Enter("k" * 70_000), talk.Ready([])]
    data = b"".join(map(talk.frame, messages))
    for step in (1, 3, 1000, len(data)):
        buffer, found = bytearray(), []
        for at in range(0, len(data), step):
            buffer += data[at : at + step]
            found += [msgspec.json.decode(each, type=talk.Up) for each in talk.take_frames(buffer)]
        assert (found, bytes(buffer)) == (messages, b"")


def test_only_plain_functions_take_a_process() -> None:
    hf = Holdfast()
    with pytest.raises(ConfigurationError, match="process=True is for plain functions"):

        @hf.task(process=True)
        async def resize() -> None: ...

    with pytest.raises(ConfigurationError, match="no imported module holds this Holdfast"):
        address_of(hf)
    assert address_of(apart.hf) == "tests.apps.apart:hf"
