"""Handlers in the thread of the caller, while Holdfast's event loop runs in another one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from ..app import Holdfast

P = ParamSpec("P")
T = TypeVar("T")


class CallersThread(Executor):
    """Runs what is submitted in the thread that serves it."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()

    def submit(self, function: Callable[P, T], /, *arguments: P.args, **keywords: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        self._calls.put((future, lambda: function(*arguments, **keywords)))
        return future

    def serve(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

    def end(self) -> None:
        self._calls.put(None)


def run_in_place(app: Holdfast, here: CallersThread, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run it on Holdfast's own event loop, and what it submits to the executor here, until it is done."""
    done: Future[T] = Future()
    begun: Future[Callable[[], Any]] = Future()

    async def work() -> T:
        task = asyncio.current_task()
        assert task is not None
        begun.set_result(partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel))
        return await make()

    def call() -> None:
        try:
            done.set_result(app._calls.wait_for(work()))
        except BaseException as error:
            done.set_exception(error)
        finally:
            here.end()

    thread = threading.Thread(target=call, name="holdfast drain", daemon=True)
    thread.start()
    try:
        here.serve()
    except BaseException:  # an interrupt, between two handlers
        begun.result()()
        here.serve()
        raise
    thread.join()
    return done.result()
