"""The terms of a job have one list in Python and one in SQL; every way to enqueue stores all of them alike."""

import inspect
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.enqueue.conftest import Inbox

from holdfast import (
    EnqueueOptions,
    EventOptions,
    Holdfast,
    ScheduleOptions,
    StartOptions,
    TaskOptions,
    WorkflowOptions,
)
from holdfast.cli.enqueue import command
from holdfast.definitions import define
from holdfast.inbox.copying import COMMON
from holdfast.model.flow import NewChild
from holdfast.model.terms import OTHERS, PLAIN, Terms

DOCS = Path(__file__).parents[2] / "docs"
NOON = datetime(2099, 1, 1, 12, tzinfo=UTC)
LATER = datetime(2099, 1, 2, tzinfo=UTC)


async def test_python_and_sql_have_the_same_terms(inbox: Inbox) -> None:
    rows = await inbox.connection.fetch(
        "select attname from pg_attribute where attrelid = 'holdfast.terms'::regclass and not attisdropped"
    )
    assert {row[0] for row in rows} == set(Terms.__struct_fields__)
    assert set(PLAIN) | set(OTHERS) | {"kind"} == set(Terms.__struct_fields__)


async def test_every_option_of_python_is_one_of_sql(inbox: Inbox) -> None:
    names = await inbox.connection.fetchval(
        "select proargnames from pg_proc where pronamespace = 'holdfast'::regnamespace and proname = 'enqueue'"
    )
    assert set(EnqueueOptions.__annotations__) <= set(names)
    page = (DOCS / "sql.md").read_text().partition("## holdfast.enqueue()")[2].partition("## holdfast.inbox")[0]
    assert re.findall(r"^\| `(\w+)` \|", page.partition("| argument |")[2].partition("\n\n")[0], re.M) == names


def test_the_options_of_a_task_are_those_of_its_definition() -> None:
    parameters = [name for name in inspect.signature(define).parameters if name not in ("function", "flow")]
    of_workflows = {"undo_on_failure"}
    assert [name for name in parameters if name not in of_workflows] == list(TaskOptions.__annotations__)
    assert set(WorkflowOptions.__annotations__) <= {*parameters}
    assert of_workflows <= WorkflowOptions.__annotations__.keys()


def test_the_page_names_every_option() -> None:
    page = (DOCS / "getting-started.md").read_text()
    assert [name for name in EnqueueOptions.__annotations__ if f"`{name}`" not in page] == []


# Which of them other doors do not take, and why. A new option is one of theirs, or is named here.
NOT_ON_THE_COMMAND_LINE = {
    "at",  # --delay says when
    "id", "headers", "unique_key", "unique_arguments", "unique_done", "replace",  # for programs
}  # fmt: skip
NOT_OF_STARTS = {
    "idempotency_key",  # the id of the instance
    "unique_key", "unique_arguments", "unique_done", "replace",  # an instance is unique by its id
}  # fmt: skip
NOT_OF_SCHEDULES = {
    "delay", "at",  # the slots say when
    "id", "idempotency_key", "unique_key", "unique_arguments", "unique_done", "replace",  # a slot has one job
}  # fmt: skip
NOT_OF_EVENTS = {
    "name", "key",  # of the event
    "unique_arguments", "unique_done",  # an event has one job
}  # fmt: skip
NOT_OF_CHILDREN = {
    "delay", "at", "expires_at",  # a child is due at once
    "unique_key", "unique_arguments", "unique_done", "replace",  # a child belongs to its step
}  # fmt: skip


def test_the_command_has_a_flag_for_each_option() -> None:
    of_the_command = {"kind", "arguments", "path", "imports", "as_json", "schema", "pooler", "version"}
    flags = {each.name for each in command.params} - of_the_command
    assert flags == EnqueueOptions.__annotations__.keys() - NOT_ON_THE_COMMAND_LINE


def test_starts_take_each_option() -> None:
    assert StartOptions.__annotations__.keys() == EnqueueOptions.__annotations__.keys() - NOT_OF_STARTS


def test_schedules_take_each_option() -> None:
    of_schedules = {"args", "missed", "grace", "jitter"}
    options = ScheduleOptions.__annotations__.keys() - of_schedules
    assert options == EnqueueOptions.__annotations__.keys() - NOT_OF_SCHEDULES


def test_handlers_of_events_take_each_option_of_a_task() -> None:
    assert EventOptions.__annotations__.keys() == TaskOptions.__annotations__.keys() - NOT_OF_EVENTS


def test_children_have_each_term() -> None:
    of_the_job = {"id", "payload", "key"}
    assert set(NewChild.__struct_fields__) - of_the_job == set(Terms.__struct_fields__) - NOT_OF_CHILDREN


# What each option is set to below, and what the row then holds: an option that is missing here fails the first test.
CHOSEN: EnqueueOptions = {
    "key": "k", "at": NOON, "queue": "bulk", "priority": 3, "max_attempts": 2, "headers": {"a": "b"},
    "expires": LATER,
}  # fmt: skip
ELSEWHERE = {"delay", "id", "idempotency_key", "unique_key", "unique_arguments", "unique_done", "replace"}
"""Options that exclude others, or that make two of these ways one; test_conformance.py and test_unique.py have them."""
STORED = {
    "payload": '{"type": "pay", "order_id": 1}', "partition_key": "k", "partition_bucket": 521, "queue": "bulk",
    "priority": 3, "available_at": NOON, "max_attempts": 2, "payload_version": 3, "headers": '{"a": "b"}',
    "kind": "pay", "ordered": True, "skips": True, "owned": False, "status": "pending",
    "expires_at": LATER,
}  # fmt: skip
BY_ITSELF = {
    "id", "seq", "attempts", "crashes", "claimed_by", "claimed_at", "lease_expires_at", "lease_generation", "fence",
    "cancel_requested_at", "completed_at", "dead_at", "last_error", "errors", "idempotency_key", "created_at",
    "snoozes", "unique_key", "unique_done", "progress", "error_group",
}  # fmt: skip
"""Columns that no term sets."""


def test_every_option_is_tried_below() -> None:
    assert set(CHOSEN) | ELSEWHERE == set(EnqueueOptions.__annotations__)


async def test_every_column_is_looked_at_below(inbox: Inbox) -> None:
    rows = await inbox.connection.fetch(
        "select attname from pg_attribute where attrelid = 'holdfast.inbox'::regclass and attnum > 0"
    )
    assert {row[0] for row in rows} == STORED.keys() | BY_ITSELF


@pytest.mark.parametrize("way", ["one", "many", "copy", "once", "many once", "mixed", "sql", "release 0.1"])
async def test_every_way_stores_the_same(hf: Holdfast, inbox: Inbox, way: str) -> None:
    @hf.task(name="pay", version=3, ordered=True, on_failure="skip")
    def pay(order_id: int) -> None: ...

    assert set(COMMON) <= STORED.keys()
    task = pay.options(**CHOSEN)
    match way:
        case "one":
            await task.enqueue(1)
        case "many" | "copy":
            await task.enqueue_many([{"order_id": 1}], copy=way == "copy")
        case "once":
            await task.options(idempotency_key="i").enqueue(1)
        case "many once":
            await task.enqueue_many([{"order_id": 1}], idempotency_keys=["i"])
        case "mixed":
            await hf.enqueue_many([task.job(1)])
        case "sql":
            await inbox.connection.execute(
                "select holdfast.enqueue('pay', '{\"order_id\": 1}', queue => 'bulk', key => 'k', at => $1, "
                'priority => 3, max_attempts => 2, version => 3, headers => \'{"a": "b"}\', ordered => true, '
                "on_failure => 'skip', expires_at => $2)",
                NOON, LATER,
            )  # fmt: skip
        case "release 0.1":  # as its producers, which may still run, enqueue with an idempotency key
            await inbox.connection.execute(
                "select * from holdfast.enqueue_each(array[null]::uuid[], array['k'], "
                "array['{\"type\": \"pay\", \"order_id\": 1}']::jsonb[], array['i'], 'pay', 'bulk', 3, $1, 2, 3, "
                '\'{"a": "b"}\', true, true)',
                NOON,
            )
    (row,) = await inbox.jobs(", ".join(name + "::text" * (name == "status") for name in STORED))
    assert dict(row) == (STORED if way != "release 0.1" else {**STORED, "expires_at": None})
