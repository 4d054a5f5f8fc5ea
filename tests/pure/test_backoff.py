"""Retry policies: what they say, and what is refused."""

from typing import Any

import pytest

from holdfast import Backoff, ConfigurationError, Holdfast, InvalidInput, Retry, Timeout
from holdfast.model.backoff import Decision
from holdfast.model.outcome import AttemptFailed
from holdfast.worker.attempts.deciding import raised, returned, stopped

app = Holdfast("postgresql://nobody@nowhere/none")


class CardExpired(Exception): ...


def test_delays_grow_up_to_the_cap() -> None:
    policy = Backoff(base="5s", factor=3, cap="1m", jitter=0)
    assert [policy.delay(attempt) for attempt in (1, 2, 3, 4, 10**9)] == [5, 15, 45, 60, 60]
    assert Backoff(base="0s", cap="0s").delay(5) == 0


def test_jitter_only_adds() -> None:
    delays = [Backoff(base="10s", factor=1, jitter=0.5).delay(1) for _ in range(200)]
    assert 10 <= min(delays) < 11
    assert 14 < max(delays) <= 15


def test_some_errors_are_not_retried() -> None:
    policy = Backoff(on=(OSError,), give_up=(ConnectionResetError,), jitter=0)
    assert policy.judge(1, TimeoutError()) == Decision(2, give_up=False)
    assert policy.judge(1, ConnectionResetError()) == Decision(None, give_up=True)
    assert policy.judge(1, ValueError()) == Decision(None, give_up=True)


def test_a_function_decides() -> None:
    policy = Backoff(decide=lambda attempt, error: f"{attempt}m" if isinstance(error, OSError) else None)
    assert policy.judge(3, OSError()) == Decision(180, give_up=False)
    assert policy.judge(3, ValueError()) == Decision(None, give_up=True)


def failed(outcome: Any) -> AttemptFailed:
    assert isinstance(outcome, AttemptFailed)
    return outcome


def test_the_policy_is_asked_for_errors_and_timeouts() -> None:
    policy = Backoff(base="5s", jitter=0, give_up=(CardExpired, Timeout))
    assert failed(raised(OSError(), 2, policy)).delay == 10
    assert failed(raised(CardExpired("in March"), 1, policy)).give_up
    assert failed(raised(ExceptionGroup("", [CardExpired()]), 1, policy)).give_up, "as a task group raises it"
    assert failed(stopped(Timeout("1 s"), 1, policy)).give_up
    assert failed(raised(OSError(), 2)).delay is None, "without a policy, the installation's"


def test_a_policy_that_fails_is_reported_and_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    policy = Backoff(base="5s", jitter=0, decide=lambda attempt, error: "soon")
    outcome = failed(raised(OSError("the error"), 1, policy))
    assert (outcome.error, outcome.delay, outcome.give_up) == ("OSError", 5, False)
    (record,) = caplog.records
    assert (record.levelname, record.exc_info is not None) == ("ERROR", True)


def test_a_handler_asks_for_a_retry() -> None:
    policy = Backoff(give_up=(Retry,))
    outcome = failed(raised(Retry("30s", "the bank is closed"), 1, policy))
    assert (outcome.error, outcome.message) == ("Retry", "the bank is closed")
    assert (outcome.delay, outcome.give_up) == (30, False)
    assert Retry("30s") == Retry("30s") != Retry("31s")
    with pytest.raises(InvalidInput, match=r"Retry\.delay"):
        Retry("soon")


def test_a_retry_that_is_returned_is_a_mistake_that_is_named() -> None:
    outcome = failed(returned(Retry("30s")))
    assert "raise it" in outcome.message
    assert outcome.give_up


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "base above cap": ({"base": "2h"}, "expected base to be at most cap"),
    "a factor below one": ({"factor": 0.5}, "expected factor to be a number from 1 to 100, got 0.5"),
    "a factor as text": ({"factor": "2"}, "expected factor"),
    "jitter below zero": ({"jitter": -1}, "expected jitter"),
    "a name of an error": ({"give_up": ("CardExpired",)}, "expected give_up to hold exception classes"),
    "no function": ({"decide": "5s"}, "expected decide to be a function"),
}


@pytest.mark.parametrize(("options", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_policy_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Backoff(**options)


def test_one_error_needs_no_tuple() -> None:
    single: Any = CardExpired
    assert Backoff(give_up=single).judge(1, CardExpired()).give_up


@pytest.mark.parametrize("retry", ["5s", 3, Backoff])
def test_what_is_no_policy_is_refused(retry: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"retry: expected Backoff\(…\) or a function of attempt and error"):
        app.task(name="x", retry=retry)(lambda: None)


# Keys from arguments


def test_a_task_makes_its_keys() -> None:
    @app.task(ordered=True, key=lambda order_id, region: f"{region}:{order_id}")
    def ship(order_id: int, note: str = "", region: str = "eu") -> None: ...

    assert ship.job(7).key == "eu:7"
    assert ship.job(7, region="us").key == "us:7"
    assert ship.options(key="own").job(7).key == "own"


def test_an_ordered_task_without_a_key_is_refused() -> None:
    @app.task(ordered=True)
    def pack(order_id: int) -> None: ...

    with pytest.raises(InvalidInput, match="pack is ordered, and order holds within a key: pass key='…', or let"):
        pack.job(1)
    assert pack.options(key="k").job(1).key == "k"


def test_a_key_function_takes_arguments_of_the_task() -> None:
    with pytest.raises(ConfigurationError, match="its function takes 'order', which is no argument of the task"):
        app.task(name="y", key=lambda order: order)(lambda order_id: None)
    with pytest.raises(ConfigurationError, match="key: expected a function of the arguments, got 'k'"):
        app.task(name="z", key="k")(lambda order_id: None)  # type: ignore[call-overload]

    @app.task(key=lambda n: n)
    def wrong(n: int) -> None: ...

    with pytest.raises(InvalidInput, match="key: expected text, got int"):
        wrong.job(1)
