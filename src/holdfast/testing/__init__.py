"""Tests of code that uses Holdfast: on the real tables, in milliseconds.

    drain               run jobs until none is due; a handler's error is raised
    assert_enqueued     which jobs wait, with which arguments; also inside an open transaction
    run_until_parked    run a workflow until it waits, and tell for what
    die_at              let the worker die at a step of a workflow
    frozen_clock        a clock that the test moves: delays, retries, schedules, horizons
    fire_schedules      enqueue what schedules want by now
    make_context        a context for a direct call of a handler, without a database
    clean               remove all jobs
    use_database        an application on another database, and no session left at the end

Each verb that waits has a twin in `_sync`. `holdfast.testing.pytest` has fixtures: a server, a migrated database.

    drain ──▶ Claimer ──▶ JobRunner ──▶ ending      the parts of a worker, one job at a time

What changes a database checks first that it is one for tests (`databases.check`).
"""

from .asserting import assert_enqueued, assert_enqueued_sync, assert_not_enqueued, assert_not_enqueued_sync
from .clock import FrozenClock, frozen_clock
from .contexts import ContextOptions, MadeContext, MadeTxContext, make_context
from .databases import clean, clean_sync, use_database
from .drained import Drained, DrainLimit, Ran
from .draining import drain, drain_sync, run_until_parked, run_until_parked_sync
from .flows import die_at
from .matching import Enqueued, Expectations
from .schedules import Fired, fire_schedules, fire_schedules_sync

__all__ = [
    "ContextOptions",
    "DrainLimit",
    "Drained",
    "Enqueued",
    "Expectations",
    "Fired",
    "FrozenClock",
    "MadeContext",
    "MadeTxContext",
    "Ran",
    "assert_enqueued",
    "assert_enqueued_sync",
    "assert_not_enqueued",
    "assert_not_enqueued_sync",
    "clean",
    "clean_sync",
    "die_at",
    "drain",
    "drain_sync",
    "fire_schedules",
    "fire_schedules_sync",
    "frozen_clock",
    "make_context",
    "run_until_parked",
    "run_until_parked_sync",
    "use_database",
]
