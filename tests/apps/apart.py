"""Handlers in processes of their own, and the same functions in threads."""

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast import Context, Fail, Holdfast, HoldfastError, Snooze
from tests.apps.witness import saw

hf = Holdfast()


def is_open(gate: str) -> bool:
    return Path(gate).exists()


def both(function: Callable[..., Any]) -> None:
    """As a task in threads, and as one in processes."""
    hf.task(max_attempts=2)(function)
    hf.task(name=f"{function.__name__}_apart", max_attempts=2, process=True)(function)


@both
def counts(ctx: Context, gate: str) -> int:
    for n in range(100_000):
        ctx.progress(n / 100_000, f"{n} of 100000")
    ctx.progress(0.4, "400 of 1000")
    while not is_open(gate):
        time.sleep(0.01)
    return ctx.attempt


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Undumpable:
    def model_dump(self, **options: Any) -> Any:
        raise ValueError("cannot be dumped")


@both
def square(n: int) -> dict[str, int]:
    return {"squared": n * n}


@both
def echo(ctx: Context, text: str) -> list[Any]:
    told = [
        ctx.kind,
        ctx.queue,
        ctx.key == str(ctx.job_id),
        ctx.attempt,
        ctx.max_attempts,
        ctx.generation,
        dict(ctx.headers),
    ]
    return [*(str(one).removesuffix("_apart") for one in told), text]


@both
def end(how: str) -> Any:
    match how:
        case "snooze":
            return Snooze("1h")
        case "fail":
            return Fail("no such \udcff order")
        case "unstorable":
            return {1, 2}
        case "undumpable":
            return Undumpable()
        case "exit":
            sys.exit(3)
        case "unprintable":
            raise Unprintable
        case "iteration":
            raise StopIteration("odd")
        case "interrupt":
            raise KeyboardInterrupt
        case _:
            raise ValueError(f"{how} \0 \udcff")


@both
def once(ctx: Context) -> bool:
    """Fails after its once() block, the first time."""
    with ctx.once(f"once:{ctx.job_id}") as first:
        if first:
            saw(ctx, "effect")
    if ctx.attempt == 1:
        raise RuntimeError("after the block")
    return first


@hf.task(process=True)
def where(ctx: Context) -> list[int]:
    saw(ctx, "started")
    return [os.getpid(), os.getppid()]


@hf.task(process=True)
def leave_thread(ctx: Context, gate: str) -> None:
    """Returns before its thread, which then asks for something."""

    def ask() -> None:
        while not is_open(gate):
            time.sleep(0.01)
        try:
            ctx.once("too late").__enter__()
        except HoldfastError as error:
            saw(ctx, "refused" if "its attempt has ended" in str(error) else "asked")

    threading.Thread(target=ask, daemon=True).start()


@hf.task(process=True)
def fork(ctx: Context) -> list[Any]:
    """What becomes of a process that is told to end, and of one that asks."""
    methods = multiprocessing.get_context("fork")
    sleepers = [methods.Process(target=time.sleep, args=(30,)) for _ in range(20)]
    for sleeper in sleepers:
        sleeper.start()
        sleeper.terminate()
    answers = methods.SimpleQueue()

    def ask() -> None:
        try:
            ctx.once("from afar").__enter__()
        except HoldfastError as error:
            answers.put(str(error))

    methods.Process(target=ask).start()
    for sleeper in sleepers:
        sleeper.join(10)
    return [*{sleeper.exitcode for sleeper in sleepers}, answers.get()]


@hf.task(process=True)
def say(words: str) -> None:
    print(words)


@hf.task(process=True, max_attempts=2)
def die(ctx: Context, how: str) -> None:
    saw(ctx, "started")
    match how:
        case "SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit code 3":
            os._exit(3)
        case "closed its connection":
            os.closerange(3, 256)
            time.sleep(600)
        case "SIGSEGV":  # while a process of its own still holds the socket
            if os.fork() == 0:
                time.sleep(5)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGSEGV)


@hf.task(process=True, max_attempts=2, timeout="1500ms")
def spin(ctx: Context) -> None:
    """Over its time, deaf, and with a program that it has started."""
    program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    saw(ctx, f"program:{program.pid}")
    saw(ctx, "started")
    while True:
        pass


@hf.task(process=True)
def hold_apart(ctx: Context, gate: str) -> None:
    """Deaf, until the gate is there."""
    saw(ctx, "started")
    while not is_open(gate):
        time.sleep(0.01)
    saw(ctx, "done")


@hf.task(process=True)
def listen(ctx: Context) -> None:
    """Until it is told to stop."""
    saw(ctx, "started")
    ctx.wait_stopping(60)
    saw(ctx, "told")
    ctx.check()


@hf.task(process=True, timeout="500ms")
def finish_late(ctx: Context) -> str:
    """Told to stop, it finishes."""
    ctx.wait_stopping(60)
    return "finished"


@hf.task
async def hold(ctx: Context, gate: str) -> int:
    """A companion on the worker's loop."""
    saw(ctx, "started")
    while not is_open(gate):
        await asyncio.sleep(0.01)
    return os.getpid()


@hf.task
async def quick() -> None:
    """Another one."""
