"""From notes to rows: with their real times, also after an outage; bounded; never in the way."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.journal.notes import Note, Notes
from holdfast.journal.writing import Writer
from tests.support.pooler import database_at
from tests.support.waiting import until
from tests.support.workers import Inbox


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def writer(inbox: Inbox, notes: Notes) -> Writer:
    inbox.rows("delete from holdfast.journal")
    return Writer(database_at(inbox.url), notes, 10)


def journal(inbox: Inbox) -> list[dict[str, Any]]:
    return inbox.rows("select * from holdfast.journal order by at, id")


async def test_a_note_is_written_with_its_time(inbox: Inbox, writer: Writer, notes: Notes) -> None:
    now = notes.clock()
    notes.add(Note("database.away", "here", now - 3600, now - 3500, count=3))
    notes.add(Note("worker.died", "w1", now - 60, details={"how": "signal SIGKILL", "held": 14}))
    await writer.write(notes.take())
    away, died = journal(inbox)
    since = datetime.now(UTC)
    assert abs(since - timedelta(hours=1) - away["at"]) < timedelta(seconds=30)
    assert away["until"] - away["at"] == timedelta(seconds=100)
    assert (away["count"], away["actor"], away["slot"]) == (3, None, None)
    assert abs(since - timedelta(minutes=1) - died["at"]) < timedelta(seconds=30)
    assert died["details"] == {"how": "signal SIGKILL", "held": 14}


async def test_what_happens_often_shares_a_row_a_minute_between_processes(
    inbox: Inbox, writer: Writer, notes: Notes
) -> None:
    inbox.rows(  # the same minute for all
        "create or replace function holdfast.clock() returns timestamptz language sql stable "
        "return timestamptz '2031-01-01 00:00:30+00'"
    )
    for count in (2, 3):
        notes.add(Note("jobs.swept", "w1", notes.clock(), None, count, {"retried": count, "dead": 1}, shared=True))
        notes.add(Note("jobs.swept", "w2", notes.clock(), None, 1, {"retried": 1}, shared=True))
        await writer.write(notes.take())
    first, second = sorted(journal(inbox), key=lambda row: row["subject"])
    assert (first["count"], first["details"]) == (5, {"retried": 5, "dead": 2})
    assert (second["count"], second["details"]) == (2, {"retried": 2})
    assert first["slot"] == datetime(2031, 1, 1, tzinfo=UTC)


async def test_notes_wait_for_the_server_and_others_do_not_wait_for_notes(inbox: Inbox, notes: Notes) -> None:
    nowhere = Writer(database_at("postgresql://127.0.0.1:1/nowhere"), notes, 1)
    notes.add(Note("worker.died", "w1", notes.clock()))
    await nowhere.write(notes.take())
    assert len(notes) == 1
    inbox.rows("delete from holdfast.journal")
    writer = Writer(database_at(inbox.url), notes, 10)
    running = asyncio.create_task(writer.run())
    await until(lambda: len(journal(inbox)) == 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(notes) == 0


async def test_what_cannot_be_written_is_counted(inbox: Inbox, writer: Writer, notes: Notes) -> None:
    inbox.rows("alter table holdfast.journal rename to elsewhere")
    notes.add(Note("worker.died", "w1", notes.clock(), count=3))
    await writer.write(notes.take())
    assert (writer.lost, len(notes)) == (3, 0)


async def test_the_last_notes_of_a_process_are_written_at_its_end(inbox: Inbox, writer: Writer, notes: Notes) -> None:
    for number in range(50):
        notes.add(Note("worker.drained", f"w{number}", notes.clock()))
    await writer.close()
    rows = journal(inbox)
    assert sum(row["count"] for row in rows) == 50
    assert len(rows) == 21


async def test_an_embedded_worker_has_its_beginning_and_its_end_in_the_journal(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task
    async def nothing() -> None: ...

    async with hf.worker() as worker:
        name = worker.name
        await until(lambda: inbox.one("select count(*) from holdfast.journal where what = 'worker.started'") == 1)
    rows = inbox.rows("select what, subject from holdfast.journal where what like 'worker.%%' order by at")
    assert [(row["what"], row["subject"]) for row in rows] == [("worker.started", name), ("worker.drained", name)]
    assert [each.text for each in await hf.incidents()][-2:] == [f"worker {name} started", f"worker {name} drained"]


async def test_a_span_of_time(hf: Holdfast, inbox: Inbox) -> None:
    inbox.rows("delete from holdfast.journal")
    inbox.rows(
        "insert into holdfast.journal (at, what, subject) "
        "select now() - make_interval(mins => n * 10), 'x', n::text from generate_series(1, 10) n"
    )
    now = datetime.now(UTC)
    assert [each.subject for each in await hf.incidents(since="25m")] == ["2", "1"]
    span = await hf.incidents(since=now - timedelta(minutes=65), until=now - timedelta(minutes=45))
    assert [each.subject for each in span] == ["6", "5"]
    assert [each.subject for each in await hf.incidents(limit=3)] == ["3", "2", "1"], "the newest"
