"""A schedule as it is declared: in code, or put into the table at run time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from ..errors import InvalidInput
from ..model.durations import Duration, seconds
from ..model.limits import check_name
from ..model.terms import NewJob
from .policy import GRACE, POLICIES, Missed, Plan
from .timing import Cron, Every, Timing

LONGEST_NAME = 384
"""Bytes: it is part of an idempotency key, with the slot."""


class Declared(msgspec.Struct, frozen=True):
    """The columns of `holdfast.schedules` that a declaration sets."""

    name: str
    kind: str
    args: msgspec.Raw
    options: Mapping[str, Any]
    cron: str | None
    every: str | None
    tz: str
    missed: Missed
    grace: str
    jitter: str
    digest: str = ""

    @classmethod
    def of(cls, plan: Plan, kind: str, args: Mapping[str, Any], options: Mapping[str, Any]) -> Declared:
        timing = plan.timing
        declared = cls(
            name=plan.name,
            kind=kind,
            args=msgspec.Raw(msgspec.json.encode(args)),
            options=options,
            cron=timing.expression if isinstance(timing, Cron) else None,
            every=_interval(timing.period) if isinstance(timing, Every) else None,
            tz=timing.tz if isinstance(timing, Cron) else "UTC",
            missed=plan.missed,
            grace=_interval(plan.grace),
            jitter=_interval(plan.jitter),
        )
        digest = hashlib.sha256(msgspec.json.encode(declared, order="sorted")).hexdigest()
        return msgspec.structs.replace(declared, digest=digest)

    @classmethod
    def of_job(cls, plan: Plan, job: NewJob) -> Declared:
        """A schedule whose jobs are as this one."""
        args = msgspec.json.decode(job.payload, type=dict[str, msgspec.Raw])
        args.pop("type", None)
        options = {name: value for name, value in msgspec.to_builtins(job._terms).items() if name != "kind"}
        return cls.of(plan, job._terms.kind, args, {**options, **({"key": job.key} if job.key is not None else {})})


def checked_plan(
    name: object, timing: Timing, missed: object = "latest", grace: Duration = GRACE, jitter: Duration = 0
) -> Plan:
    """A plan of these options; raises `InvalidInput` with what was expected."""
    if len(check_name("name", name).encode()) > LONGEST_NAME:
        raise InvalidInput("name", f"expected at most {LONGEST_NAME} bytes of UTF-8")
    if missed not in POLICIES:
        raise InvalidInput("missed", f"expected 'skip', 'latest' or 'all', got {missed!r}")
    spread = timedelta(seconds=seconds(jitter, "jitter"))
    if isinstance(timing, Every) and spread >= timing.period:
        raise InvalidInput("jitter", f"expected less than the period, which is {timing.words}, got {jitter!r}")
    return Plan(str(name), timing, missed, timedelta(seconds=seconds(grace, "grace")), spread)


def _interval(duration: timedelta) -> str:
    return f"{duration.total_seconds():.6f} seconds"
