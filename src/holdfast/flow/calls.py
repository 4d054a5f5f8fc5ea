"""What the calls of a flow take: names, options, children, and the payloads of signals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypedDict, cast

import msgspec

from ..errors import ConfigurationError, InvalidInput, InvalidPayload
from ..model.backoff import Backoff, RetryFunction, policy
from ..model.durations import Duration, seconds
from ..model.flow import UNDO_PREFIX
from ..model.limits import check_int, check_name
from ..model.terms import NewJob
from . import steps
from .functions import Decode, StepFunction

PATCH_PREFIX = "patch:"
"""Of the names under which patches are recorded."""
_RESERVED = (UNDO_PREFIX, PATCH_PREFIX)


class StepOptions(TypedDict, total=False):
    """The options of `Flow.step`.

    ```python
    @hf.workflow(version=1)
    async def paid_order(flow: Flow, order_id: int) -> str:
        return await flow.step("receipt", send_receipt, order_id, max_attempts=3, timeout="10s")
    ```
    """

    undo: Callable[..., Any] | None
    """Called with the same arguments if the instance is cancelled or fails later."""
    key: object
    """Tells steps of one name apart that run side by side."""
    max_attempts: int | None
    """Attempts until the step has failed; 5, or as its task says."""
    timeout: Duration | None
    """Of one attempt; 1 h, or as its task says."""
    retry: Backoff | RetryFunction | None
    """When a failed attempt is retried."""
    catch: bool
    """Raise `StepFailed` in the workflow when it is out of attempts, instead of stopping the instance."""


class Child(Protocol):
    """A task or a workflow, as something that a workflow can start."""

    def job(self, *arguments: Any, **keywords: Any) -> NewJob: ...


_checked: set[str] = set()
"""Names that were in order. A workflow uses the same ones in each run."""
_MOST_CHECKED = 10_000


def step_name(name: str, key: object = None) -> str:
    """A step's name as it is stored."""
    if key is None and type(name) is str:
        if name in _checked:
            return name
        _check_step_name(name)
        if len(_checked) < _MOST_CHECKED:
            _checked.add(name)
        return name
    name = check_name("name", name) if type(name) is not str else name
    if key is not None:
        name = f"{name}[{key}]"
    return _check_step_name(name)


def _check_step_name(name: str) -> str:
    if name.startswith(_RESERVED):
        raise InvalidInput("name", f"of a step must not start with {UNDO_PREFIX!r} or {PATCH_PREFIX!r}, got {name!r}")
    if 0 < len(name) <= 128 and name.isprintable():
        return name
    return check_name("name", name)


def step_how(function: StepFunction, options: StepOptions) -> steps.How:
    if unknown := sorted(options.keys() - StepOptions.__annotations__.keys()):
        names = ", ".join(StepOptions.__annotations__)
        raise InvalidInput(unknown[0], f"is not an option of step(); it takes {names}; pass arguments by position")
    limit, timeout = options.get("max_attempts"), options.get("timeout")
    return steps.how(
        function,
        check_int("max_attempts", limit, 1, 2**31 - 1) if limit is not None else None,
        seconds(timeout, "timeout") if timeout is not None else None,
        policy(options.get("retry")),
        bool(options.get("catch")),
    )


def as_child(target: Any) -> Child:
    if not hasattr(target, "job") or not hasattr(target, "_definition"):
        raise ConfigurationError(
            f"child: expected a task or a workflow, got {target!r}; for a function, use flow.step()"
        )
    return cast(Child, target)


class Signalled(msgspec.Struct):
    """Which of several signals came, as it is recorded."""

    signal: str
    payload: msgspec.Raw


SIGNALLED = msgspec.json.Decoder(Signalled)


def signal_payload(signal: str, raw: bytes, decode: Decode) -> Any:
    if raw == b"null":
        return None
    try:
        return decode(raw)
    except (msgspec.DecodeError, NotImplementedError) as error:
        raise InvalidPayload(
            "payload", f"of signal {signal} does not fit what the workflow waits for: {error}"
        ) from None
