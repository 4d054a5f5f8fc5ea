"""`drain_sync`: the same from code that does not await; sync handlers run in the caller's thread."""

import threading
from typing import Any

import pytest
from tests.support.workers import Inbox

from holdfast import Context, Holdfast
from holdfast.testing import assert_enqueued_sync, drain_sync


@pytest.fixture
def app(inbox: Inbox) -> Any:
    hf = Holdfast(inbox.url)
    yield hf
    hf.close_sync()


def test_handlers_run_in_the_callers_thread(app: Holdfast) -> None:
    where: list[threading.Thread] = []
    local = threading.local()
    local.connection = "of the test"

    @app.task
    def here(ctx: Context) -> str:
        where.append(threading.current_thread())
        with ctx.once("effect") as first:
            assert first
        follow.enqueue_sync(1)
        return str(local.connection)

    @app.task(process=True)
    def follow(n: int) -> None:
        where.append(threading.current_thread())

    @app.task
    async def on_loop() -> None:
        where.append(threading.current_thread())

    here.enqueue_sync()
    drained = drain_sync(app)
    assert [ran.result for ran in drained] == ["of the test", None]
    assert where == [threading.current_thread()] * 2
    on_loop.enqueue_sync()
    assert len(drain_sync(app)) == 1
    assert where[-1] is not threading.current_thread()


def test_errors_are_raised(app: Holdfast) -> None:
    @app.task
    def broken() -> None:
        raise ZeroDivisionError("here")

    @app.task
    def stops() -> None:
        raise StopIteration

    broken.enqueue_sync()
    with pytest.raises(ZeroDivisionError, match="here") as caught:
        drain_sync(app)
    assert any(entry.name == "broken" for entry in caught.traceback)
    stops.enqueue_sync()
    with pytest.raises(StopIteration):
        drain_sync(app)
    drained = drain_sync(app, errors="retry")
    assert drained.left == 2
    assert_enqueued_sync(broken, count=1)


def test_an_outcome_of_pytest_goes_through(app: Holdfast) -> None:
    @app.task
    def fails() -> None:
        pytest.fail("as the test says")

    fails.enqueue_sync()
    with pytest.raises(pytest.fail.Exception, match="as the test says"):
        drain_sync(app)


def test_an_interrupt_goes_through_always(app: Holdfast) -> None:
    @app.task
    def interrupted() -> None:
        raise KeyboardInterrupt

    interrupted.enqueue_sync()
    with pytest.raises(KeyboardInterrupt):
        drain_sync(app, errors="retry")
    interrupted.enqueue_sync()
    assert len(drain_sync(app, queues=["other"])) == 0, "it can be used after that"
