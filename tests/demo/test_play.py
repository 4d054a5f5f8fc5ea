"""Stopped in the middle of something, the demo says nothing about what it left off."""

import asyncio
import gc

import pytest

from holdfast.demo.play import _Stop


@pytest.mark.parametrize("asked", [0, 15])
def test_what_is_left_off_is_no_news_once_it_was_asked_to_stop(caplog: pytest.LogCaptureFixture, asked: int) -> None:
    stop = _Stop()

    async def leave_behind() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(stop.on_exception)
        future = loop.create_future()
        future.set_exception(ConnectionError("unexpected connection_lost() call"))
        stop.asked = asked
        del future

    asyncio.run(leave_behind())
    gc.collect()
    assert ("never retrieved" in caplog.text) is not bool(asked)
