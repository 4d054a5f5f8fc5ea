"""Write docs/api.md from the docstrings of everything that users may import: `make reference`.

Code in docstrings is Markdown: `tests/docs/` runs it, as it runs the code of every page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import griffe

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "api.md"

GROUPS: dict[str, tuple[str, ...]] = {
    "The application": ("Holdfast",),
    "Tasks and jobs": (
        "Task",
        "TaskOptions",
        "EnqueueOptions",
        "NewJob",
        "Job",
        "JobState",
        "JobProgress",
        "JobFilter",
    ),
    "In a handler": ("Context", "TxContext", "Fail", "Retry", "Snooze", "Backoff"),
    "Around every attempt": ("CallNext", "CallNextSync"),
    "Workflows": (
        "Workflow",
        "WorkflowOptions",
        "StartOptions",
        "Instance",
        "Flow",
        "StepOptions",
        "StepContext",
        "Step",
        "Wait",
        "Sleep",
        "Signalled",
        "InstanceState",
        "StepState",
        "SignalState",
    ),
    "Schedules": ("ScheduleOptions", "ScheduleState"),
    "Events": ("PublishOptions", "Published"),
    "Webhooks": (
        "webhooks.Webhooks",
        "webhooks.Policy",
        "NewEndpoint",
        "EndpointState",
        "EndpointAttempt",
        "Recovered",
    ),
    "Events from others": ("Event", "EventOptions", "EventTask", "Receiver", "Received"),
    "Workers": ("EmbeddedWorker", "WorkerOptions"),
    "Operating": ("Explanation", "Reason", "Finding"),
    "Keys and limits": ("substream", "Limits"),
    "Testing": (
        "testing.drain",
        "testing.Drained",
        "testing.Ran",
        "testing.assert_enqueued",
        "testing.assert_not_enqueued",
        "testing.Expectations",
        "testing.Enqueued",
        "testing.frozen_clock",
        "testing.FrozenClock",
        "testing.run_until_parked",
        "testing.die_at",
        "testing.fire_schedules",
        "testing.Fired",
        "testing.make_context",
        "testing.ContextOptions",
        "testing.clean",
        "testing.use_database",
    ),
    "Django": ("contrib.django.DjangoHoldfast", "contrib.django.staff"),
    "OpenTelemetry": ("contrib.otel.instrument",),
}
"""What is for users, by topic. Everything else that is exported must be in one of the next two, or an error."""

BOUND = ("OnAsync", "OnSync", "StartOnAsync", "StartOnSync", "AllOnAsync", "AllOnSync")
"""What `on(connection)` returns."""

ALIASES = ("Duration", "OnFailure", "RetryFunction", "Replace", "LiveStatus")
"""Short names of types in signatures."""

MADE_BY_USERS = (
    "Step",
    "Wait",
    "Sleep",
    "die_at",
    "Holdfast",
    "Webhooks",
    "DjangoHoldfast",
    "Fail",
    "Retry",
    "Snooze",
    "Backoff",
    "Limits",
    "Policy",
)
"""Their constructors are shown."""

OPAQUE = ("NewJob",)
"""Users pass these on; what is in them is not for users."""

VARIABLES = {
    "Holdfast": "hf",
    "Task": "task",
    "Job": "job",
    "Workflow": "workflow",
    "Instance": "instance",
    "Context": "ctx",
    "EmbeddedWorker": "worker",
    "FrozenClock": "clock",
    "Drained": "drained",
}
"""What examples call an object of this class. The methods of other classes are not for users."""

OWN = ("Workflow", "Instance")
"""Of these, only what they do not inherit is shown."""

HIDDEN = ("Workflow.upcast",)
"""Methods that only raise an error."""

INSIDE = ("Flow",)
"""What users get inside a function of theirs: methods are listed, and examples are not run."""

HEAD = """\
# API reference

<!-- Made from the docstrings by `make reference`. Do not edit it by hand. -->

Everything that you can import from `holdfast`. The other pages explain how to use it; this one lists all of it.

A method that is awaited has a twin that is not, with the same arguments: its name ends in `_sync`. A `Duration` is a
number of seconds, a `timedelta`, or text such as `"90s"`, `"5m"`, `"2h"` or `"7d"`.

The examples follow each other, as in one program.

<!-- python
import asyncpg

connection = await asyncpg.connect(url)
await connection.execute("create table orders (id int primary key); create table ledger (order_id int)")
-->
```python
import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import holdfast
import msgspec
from holdfast import *
from holdfast.transports import Delivered, Message, Settle
from holdfast.webhooks import Webhooks

SECRETS = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]  # from the sender


class OrderPaid(msgspec.Struct):
    order_id: int
```
<!-- python
import asyncio
from holdfast.model.signature import sign
from holdfast.transports.consuming import Incoming


class Consumer:
    shown = "a broker"

    async def open(self) -> None: ...

    async def fetch(self) -> Sequence[Incoming]:
        await asyncio.sleep(0.1)
        return []

    async def acknowledge(self, messages: Sequence[Incoming]) -> None: ...

    async def close(self) -> None: ...


consumer = Consumer()
-->
<!-- python
class request:
    body = b'{"type": "order.paid", "data": {"order_id": 9182}}'
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(int(time.time()))}


now = int(request.headers["webhook-timestamp"])
request.headers["webhook-signature"] = sign(SECRETS[0], "msg_1", now, request.body)
-->
"""

TAIL = """
<!-- python
await connection.close()
-->
"""

LONG = 100
"""Characters of a signature above which each parameter gets a line."""


@cache
def page() -> str:
    """Return the whole page."""
    library = griffe.load("holdfast", search_paths=[ROOT / "src"])
    grouped = {*BOUND, *ALIASES, *(name for names in GROUPS.values() for name in names)}
    errors = [name for name in map(str, library.exports or ()) if name not in grouped and name != "__version__"]
    parts = [HEAD]
    for heading, names in GROUPS.items():
        parts.append(f"## {heading}\n")
        for name in names:
            parts += _item(_target(library[name]))
    parts.append("## Types in signatures\n\nWhat `on(connection)` returns, for annotations of your own:\n")
    parts.append(_table(("name", "methods", "meaning"), (_bound(_target(library[name])) for name in BOUND)))
    parts.append("And short names:\n")
    parts.append(_table(("name", "type", "meaning"), (_alias(_target(library[name])) for name in ALIASES)))
    parts.append("## Errors\n\n[errors.md](errors.md) says what to do about each.\n")
    parts.append(_table(("error", "meaning"), ((f"`{name}`", _line(library[name])) for name in errors)))
    return "\n".join([*parts, TAIL])


def _item(item: griffe.Object) -> Iterator[str]:
    """A class with its attributes and methods, or a function."""
    if isinstance(item, griffe.Function):
        assert item.parent is not None
        yield from _function("###", item, "", twin=f"{item.name}_sync" in item.parent.members)
        return
    assert isinstance(item, griffe.Class)
    yield f"### {item.name}\n"
    if item.name in MADE_BY_USERS:
        yield _signature(item.name, item.parameters, None)
    text = _text(item)
    if item.name in INSIDE:
        text = text.replace("```python\n", "<!-- not run: a part of a program -->\n```python\n", 1)
    yield text + "\n"
    if item.name not in OPAQUE and (rows := list(_attributes(item))):
        yield _table(("name", "type", "meaning"), rows)
    if item.name in INSIDE:
        yield _table(("method", "meaning"), _methods(item))
    if (variable := VARIABLES.get(item.name)) is not None:
        members = item.members.items() if item.name in OWN else _members(item)
        methods = {
            name: _target(member)
            for name, member in members
            if not name.startswith("_") and _target(member).is_function and f"{item.name}.{name}" not in HIDDEN
        }
        for name, method in methods.items():
            if not name.endswith("_sync"):
                assert isinstance(method, griffe.Function)
                yield from _function("####", method, f"{variable}.", twin=f"{name}_sync" in methods)


def _bound(item: griffe.Object) -> tuple[str, str, str]:
    methods = (f"`{name}`" for name, member in _members(item) if _target(member).is_function)
    return f"`{item.name}`", ", ".join(methods), _line(item)


def _alias(item: griffe.Object) -> tuple[str, str, str]:
    assert isinstance(item, griffe.Attribute)
    return f"`{item.name}`", f"`{_spelled(item.value)}`", _line(item)


def _methods(item: griffe.Class) -> Iterator[tuple[str, str]]:
    for name, member in _members(item):
        method = _target(member)
        if isinstance(method, griffe.Function):
            yield f"`{name}({', '.join(_parameters(method.parameters))})`", _line(method)


def _function(level: str, function: griffe.Function, owner: str, *, twin: bool) -> Iterator[str]:
    yield f"{level} {owner}{function.name}\n"
    yield _signature(f"{owner}{function.name}", function.parameters, function.returns)
    text, mark, example = _text(function).partition("```python\n")
    yield f"{text.strip()}\n"
    if twin:
        yield f"Without await: `{owner}{function.name}_sync`.\n"
    if mark:
        yield f"{mark}{example}\n"


def _signature(name: str, parameters: Iterable[griffe.Parameter], answer: object) -> str:
    listed = list(_parameters(parameters))
    ends = f") -> {_spelled(answer)}" if answer is not None else ")"
    signature = f"{name}({', '.join(listed)}{ends}"
    if len(signature) > LONG:
        signature = f"{name}(\n" + "".join(f"    {each},\n" for each in listed) + ends
    return f"<!-- not run: a signature -->\n```python\n{signature}\n```\n"


def _parameters(parameters: Iterable[griffe.Parameter]) -> Iterator[str]:
    """As they are written, without `self`."""
    starred = False
    for each in parameters:
        if each.name == "self":
            continue
        stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(each.kind, "")  # type: ignore[arg-type]
        if each.kind is griffe.ParameterKind.keyword_only and not starred:
            yield "*"
        starred = starred or stars == "*" or each.kind is griffe.ParameterKind.keyword_only
        type = f": {_spelled(each.annotation)}" if each.annotation is not None else ""
        default = f" = {each.default}" if each.default is not None and not stars else ""
        yield f"{stars}{each.name}{type}{default}"


def _attributes(item: griffe.Class) -> Iterator[tuple[str, str, str]]:
    made = {each.name: each for each in item.parameters}
    for name, member in _members(item):
        attribute = _target(member)
        if isinstance(attribute, griffe.Attribute) and attribute.docstring is not None:
            type = attribute.annotation or (made[name].annotation if name in made else None)
            yield f"`{name}`", f"`{_spelled(type)}`", _line(attribute)


def _members(item: griffe.Object) -> Iterator[tuple[str, griffe.Object | griffe.Alias]]:
    """What users may touch: its own first, then what it inherits."""
    for name, member in [*item.members.items(), *item.inherited_members.items()]:
        if not name.startswith("_"):
            yield name, member


def _target(item: griffe.Object | griffe.Alias) -> griffe.Object:
    return item.final_target if isinstance(item, griffe.Alias) else item


def _text(item: griffe.Object | griffe.Alias) -> str:
    return item.docstring.value if item.docstring is not None else ""


def _line(item: griffe.Object | griffe.Alias) -> str:
    """The first paragraph, on one line."""
    return " ".join(_text(item).split("\n\n")[0].split())


def _spelled(annotation: object) -> str:
    """A type as users would write it."""
    return re.sub(r"Unpack\[(\w+)\]", r"\1", re.sub(r"\btyping\.", "", str(annotation)))


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
