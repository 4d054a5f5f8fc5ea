"""The processes that run handlers: started when needed, used again, ended when not."""

import asyncio
import os
import select
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from tests.apps import apart, witness
from tests.support.waiting import until, wait_until

from holdfast import ConfigurationError, Holdfast, LeaseLost, Timeout
from holdfast.context import Desk
from holdfast.loading import import_path_of
from holdfast.model.ids import new_id
from holdfast.model.job import Claim
from holdfast.model.occurrences import Occurrences
from holdfast.model.outcome import AttemptFailed, Completed, HandedBack, Lost, Outcome, Snoozed
from holdfast.model.questions import EnterOnce, Question
from holdfast.worker.handler_processes import pool as processes
from holdfast.worker.handler_processes import protocol
from holdfast.worker.handler_processes.pool import HandlerProcesses
from holdfast.worker.leases import ledger as marks
from holdfast.worker.log_lines import LogLines


class NoDesk:
    """These handlers ask for nothing, or for what fails."""

    async def ask(self, claim: Claim, question: Question) -> bool:
        raise ConnectionError("the desk is closed")


def claim_of(kind: str, **arguments: Any) -> Claim:
    payload = msgspec.json.encode({"type": kind, **arguments}).decode()
    return Claim("w1", new_id(), 1, 1, 1, 5, kind, 1, payload, "default", "", None, None)


def definitions() -> list[Any]:
    return [task._definition for task in apart.hf.tasks.values()]


@pytest.fixture
async def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HandlerProcesses]:
    monkeypatch.setenv(witness.VARIABLE, str(tmp_path / "witness"))
    pool = HandlerProcesses("tests.apps.apart:hf", definitions(), cast(Desk, NoDesk()), Occurrences(LogLines()))
    await pool.start()
    yield pool
    await pool.close()


def run(pool: HandlerProcesses, claim: Claim, reason: Exception | None = None) -> asyncio.Task[Outcome | None]:
    return asyncio.create_task(pool.run(claim, lambda: reason, told=True, begins=lambda: None))


async def pid_of(pool: HandlerProcesses) -> int:
    outcome = await run(pool, claim_of("where"))
    assert isinstance(outcome, Completed)
    assert outcome.result is not None
    return int(msgspec.json.decode(outcome.result)[0])


def living(pool: HandlerProcesses) -> int:
    return sum(process.alive for process in pool._all)


async def test_more_are_started_when_all_are_busy_and_end_when_they_idle(
    pool: HandlerProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    running = [run(pool, claim_of("hold_apart", gate=str(gate))) for _ in range(3)]
    await until(lambda: len(witness.read(tmp_path / "witness")) == 3)
    assert living(pool) == 3
    gate.touch()
    assert [await one for one in running] == [Completed()] * 3
    monkeypatch.setattr(processes, "IDLE", 0.1)
    await until(lambda: living(pool) == 1)
    await asyncio.sleep(1.2)
    assert (living(pool), len(pool._all)) == (1, 1), "one stays, and nothing is kept of the others"
    await pid_of(pool)


async def test_one_that_died_while_it_idled_costs_no_attempt(pool: HandlerProcesses) -> None:
    pid = await pid_of(pool)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: living(pool) == 0)
    assert await pid_of(pool) != pid


async def test_one_that_dies_as_it_is_handed_on_costs_no_attempt(
    pool: HandlerProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    monkeypatch.setattr(processes, "CORES", 0)  # so that the next attempt waits for it
    ending = run(pool, claim_of("hold_apart", gate=str(gate)))
    await until(lambda: bool(witness.read(tmp_path / "witness")))
    (process,) = pool._all
    waiting = asyncio.create_task(pid_of(pool))
    await until(lambda: bool(pool._waiting))
    gate.touch()
    # Meanwhile the loop stands still: it is to see the outcome and the death together.
    wait_until(lambda: bool(select.select([process._socket], [], [], 0)[0]))
    os.kill(process._process.pid, signal.SIGKILL)
    wait_until(lambda: not process.alive)
    monkeypatch.undo()
    monkeypatch.setenv(witness.VARIABLE, str(tmp_path / "witness"))
    assert await ending == Completed()
    assert await waiting != process._process.pid


async def test_one_that_closed_its_socket_while_it_idled_is_ended(pool: HandlerProcesses) -> None:
    pid = await pid_of(pool)
    os.kill(pid, signal.SIGSTOP)  # or it would end by itself
    (process,) = pool._all
    assert process._transport is not None
    process._transport.abort()
    await until(lambda: not pool._all)
    assert not process.alive


async def test_word_that_it_is_ready_may_come_too_late(pool: HandlerProcesses) -> None:
    (process,) = pool._all
    process.data_received(protocol.frame(protocol.Ready([])) + protocol.frame(protocol.Refused("late")))


async def test_a_default_timeout_for_sockets_is_not_for_ours(pool: HandlerProcesses) -> None:
    pid = await pid_of(pool)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: living(pool) == 0)
    socket.setdefaulttimeout(30)
    try:
        assert len({await pid_of(pool) for _ in range(20)}) == 1
    finally:
        socket.setdefaulttimeout(None)


async def test_signals_for_everybody_do_not_end_one_that_starts(pool: HandlerProcesses) -> None:
    os.kill(await pid_of(pool), signal.SIGKILL)
    await until(lambda: living(pool) == 0)
    starting = asyncio.create_task(pid_of(pool))
    await until(lambda: living(pool) == 1)
    (pid,) = (process._process.pid for process in pool._all if process.alive)
    os.kill(pid, signal.SIGTERM)
    os.kill(pid, signal.SIGINT)
    assert await starting == pid


async def test_an_attempt_that_cannot_begin_is_put_off(
    pool: HandlerProcesses, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = await pid_of(pool)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: living(pool) == 0)
    monkeypatch.setattr(pool, "_import_path", "nowhere:hf")
    assert await run(pool, claim_of("where")) == Snoozed(5.0)
    assert "could not start: app: there is no module 'nowhere'" in caplog.text
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    assert await run(pool, claim_of("where")) == Snoozed(5.0)
    assert "No such file or directory: '/nonexistent/python'" in caplog.text
    monkeypatch.undo()
    await until(lambda: len(pool._all) == 0)


async def test_a_job_that_expires_while_it_waits_for_a_process_is_handed_back(
    pool: HandlerProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    usable = pool._usable

    async def slow() -> Any:
        process = await usable()
        await asyncio.sleep(0.3)
        return process

    monkeypatch.setattr(pool, "_usable", slow)
    first = await pid_of(pool)
    late = claim_of("where")
    late.expires_in, late.start_by = 0.1, marks.now() + int(0.1e9)
    assert await run(pool, late) == HandedBack()
    assert await pid_of(pool) == first, "its process is there for the next"


async def test_cancelled_before_its_process_is_ready_it_leaves_it_to_the_next(
    pool: HandlerProcesses, tmp_path: Path
) -> None:
    holding = run(pool, claim_of("hold_apart", gate="/nonexistent/gate"))
    await until(lambda: bool(witness.read(tmp_path / "witness")))
    starting = run(pool, claim_of("where"))
    await until(lambda: len(pool._all) == 2)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await until(lambda: len(pool._idle) == 1)
    await pid_of(pool)
    assert (living(pool), holding.done()) == (2, False)


async def test_whichever_is_free_first_takes_the_next_attempt(pool: HandlerProcesses, tmp_path: Path) -> None:
    """Many short attempts at once do not start as many processes."""
    outcomes = await asyncio.gather(*(run(pool, claim_of("square_apart", n=n)) for n in range(200)))
    squares = [Completed(f'{{"squared":{n * n}}}') for n in range(200)]
    assert outcomes == squares
    assert len(pool._all) <= 1 + processes.CORES
    assert not pool._waiting


async def test_a_second_cancellation_kills_at_once(
    pool: HandlerProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "GIVE_IN", 60.0)
    holding = run(pool, claim_of("hold_apart", gate="/nonexistent/gate"), Timeout("over"))
    await until(lambda: bool(witness.read(tmp_path / "witness")))
    holding.cancel()
    await asyncio.sleep(0.1)
    assert not holding.done()
    holding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holding
    await until(lambda: living(pool) == 0)


async def test_closed_it_leaves_nothing_and_nobody_waiting(pool: HandlerProcesses, tmp_path: Path) -> None:
    holding = run(pool, claim_of("hold_apart", gate="/nonexistent/gate"))
    await until(lambda: bool(witness.read(tmp_path / "witness")))
    (process,) = pool._all
    waiting = [run(pool, claim_of("where")) for _ in range(4)]
    await until(lambda: len(pool._all) > 1)
    await pool.close()
    assert [await one for one in waiting] == [Snoozed(5.0)] * 4
    assert isinstance(await holding, AttemptFailed)
    assert (process.alive, pool._all, pool._starting) == (False, set(), set())


async def test_what_the_desk_refuses_is_raised_in_the_handler(pool: HandlerProcesses) -> None:
    outcome = await run(pool, claim_of("once_apart"))
    assert isinstance(outcome, AttemptFailed)
    assert (outcome.error, outcome.message) == ("HoldfastError", "ConnectionError: the desk is closed")


async def test_a_lease_that_the_desk_finds_lost_is_lost(
    pool: HandlerProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(claim: Claim, question: Question) -> bool:
        raise LeaseLost("this attempt no longer owns its job")

    monkeypatch.setattr(pool._desk, "ask", refuse)
    assert await run(pool, claim_of("once_apart")) == Lost()


async def test_a_thread_that_outlives_its_attempt_cannot_ask_in_the_name_of_the_next(
    pool: HandlerProcesses, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    assert await run(pool, claim_of("leave_thread", gate=str(gate))) == Completed()
    next_one = run(pool, claim_of("hold_apart", gate=str(tmp_path / "later")))
    await until(lambda: bool(witness.read(tmp_path / "witness")))
    gate.touch()
    await until(lambda: len(witness.read(tmp_path / "witness")) == 2)
    assert [seen.what for seen in witness.read(tmp_path / "witness")] == ["started", "refused"]
    (tmp_path / "later").touch()
    assert await next_one == Completed()


async def test_a_start_that_takes_too_long_is_tried_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "START", 0.001)
    pool = HandlerProcesses("tests.apps.apart:hf", definitions(), cast(Desk, NoDesk()), Occurrences(LogLines()))
    starting = asyncio.create_task(pool.start())
    said = "process=True: a process did not load tests.apps.apart:hf within 0.001 s; trying again"
    await until(lambda: said in caplog.text)
    monkeypatch.undo()
    await starting
    await pool.close()


@pytest.mark.parametrize("address", ["nowhere:hf", "tests.apps.effects:hf"], ids=["no module", "no such task"])
async def test_an_application_that_cannot_be_loaded_is_refused(address: str) -> None:
    pool = HandlerProcesses(address, definitions(), cast(Desk, NoDesk()), Occurrences(LogLines()))
    with pytest.raises(ConfigurationError, match=r"process=True: (app: there is no module|a process that imports)"):
        await pool.start()
    await pool.close()


async def test_a_program_that_cannot_be_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    pool = HandlerProcesses("tests.apps.apart:hf", definitions(), cast(Desk, NoDesk()), Occurrences(LogLines()))
    with pytest.raises(ConfigurationError, match="No such file or directory"):
        await pool.start()
    await pool.close()


def test_frames_are_found_however_they_come() -> None:
    messages: list[msgspec.Struct] = [protocol.GaveIn(), protocol.Ask(EnterOnce("k" * 70_000)), protocol.Ready([])]
    data = b"".join(map(protocol.frame, messages))
    for step in (1, 3, 1000, len(data)):
        buffer, found = bytearray(), []
        for at in range(0, len(data), step):
            buffer += data[at : at + step]
            found += [msgspec.json.decode(each, type=protocol.Up) for each in protocol.take_frames(buffer)]
        assert (found, bytes(buffer)) == (messages, b"")


def test_only_plain_functions_take_a_process() -> None:
    hf = Holdfast()
    with pytest.raises(ConfigurationError, match="process=True is for plain functions"):

        @hf.task(process=True)
        async def resize() -> None: ...

    with pytest.raises(ConfigurationError, match="no imported module holds this Holdfast"):
        import_path_of(hf)
    assert import_path_of(apart.hf) == "tests.apps.apart:hf"
