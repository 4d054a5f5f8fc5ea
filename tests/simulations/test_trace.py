"""What real workers did to real rows, replayed through the rules, in Python and in JavaScript."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.support.inbox import session
from tests.support.node import ask, needs_node
from tests.support.waiting import wait_until
from tests.support.workers import Fleet, Inbox

from holdfast.db.statements import statement
from holdfast.model.rules import rules

pytestmark = [pytest.mark.faults, pytest.mark.direct, needs_node]

LEASE = 3.0
RECORD = """
    create table trace (n bigserial, id uuid, statement text, before jsonb, after jsonb,
                        at timestamptz not null default clock_timestamp());
    create function record() returns trigger language plpgsql as $$
    begin
        insert into public.trace (id, statement, before, after)
        values (coalesce(new.id, old.id), current_query(), to_jsonb(old), to_jsonb(new));
        return null;
    end $$;
    create trigger record after insert or update or delete on holdfast.inbox
        for each row execute function public.record();
"""
STATEMENTS = {
    ("inbox", "claim"): "claim",
    ("inbox", "claim_guarded"): "claim",
    ("inbox", "renew"): "renew",
    ("inbox", "complete"): "complete",
    ("inbox", "fail"): "fail",
    ("inbox", "snooze"): "snooze",
    ("inbox", "hand_back"): "hand_back",
    ("inbox", "hand_back_worker"): "hand_back",
    ("inbox", "revive"): "revive",
    ("housekeeping", "sweep"): "sweep",
}
CALLS = {"holdfast.cancel(": "cancel", "holdfast.discard(": "discard", "holdfast.run_now(": "run_now"}
"""As applications call them in SQL."""
Row = dict[str, Any]


@pytest.mark.timeout(300)
def test_a_real_run_follows_the_rules(fleet: Fleet) -> None:
    inbox = fleet.inbox
    inbox.prepare()
    inbox.rows(RECORD)
    refused = _live(fleet)
    rows = inbox.rows("select n, id, statement, before, after, at from trace order by n")
    archive = {
        row["id"]: row["status"] for row in inbox.rows("select id, status::text as status from holdfast.archive")
    }
    trace = _trace(rows, archive, refused)
    happened = [each["event"] for each in trace]
    for event in (
        "enqueue", "claim", "renew", "complete", "fail", "died", "sweep", "snooze", "hand_back", "cancel", "run_now",
        "revive", "discard", "end",
    ):  # fmt: skip
        assert event in happened, f"the run had no {event}: it proves nothing about it"
    real = [each["after"] for each in trace]
    for each, after in zip(trace, _in_python(trace), strict=True):
        assert after == each["after"], each
    assert ask("replay", trace=[{**each, "after": None} for each in trace]) == real


def _live(fleet: Fleet) -> list[Row]:
    """Jobs that end in every way, a process that dies, and a host that dies; returns the writes that were refused."""
    inbox, gate = fleet.inbox, fleet.folder / "gate"
    first = fleet.start(lease=LEASE)
    inbox.wait([inbox.enqueue("effect"), inbox.enqueue("failing", times=1), inbox.enqueue("later")])
    inbox.wait(inbox.enqueue("never"), "failed")
    lost = [inbox.enqueue("failing", times=9, max_attempts=1) for _ in range(2)]
    inbox.wait(lost, "dead_letter")
    inbox.rows("select * from holdfast.discard(array[%s::uuid])", lost[0])
    poison = inbox.enqueue("poison", max_attempts=2)
    inbox.wait(poison, "dead_letter")

    held = inbox.enqueue("hold", gate=str(gate))
    fleet.wait_seen(held, "started")
    renewed = "select count(*) > 0 from trace where id = %s and statement = %s"
    wait_until(lambda: bool(inbox.one(renewed, held, statement("inbox", "renew", "holdfast"))))
    (stale,) = inbox.rows("select claimed_by, lease_generation from holdfast.inbox where id = %s", held)
    first.end()  # with its supervisor, so only the sweep can recover the row

    distant = [_distant(inbox), _distant(inbox)]
    inbox.rows("select * from holdfast.run_now(array[%s::uuid])", distant[0])
    inbox.rows("select * from holdfast.cancel(array[%s::uuid])", distant[1])
    second = fleet.start(lease=LEASE, options=["--drain", "0.2s"])
    fleet.wait_seen(held, "started", 2)
    refused = asyncio.run(_stale(inbox.url, held, stale))
    second.drain()  # it does not wait for the handler: the row is handed back

    asyncio.run(_revive(inbox.url, lost[1]))
    inbox.rows("select * from holdfast.cancel(array[%s::uuid])", inbox.enqueue("effect"))
    gate.touch()
    fleet.start(lease=LEASE)
    inbox.wait([held, distant[0]])
    inbox.wait(lost[1], "dead_letter")
    return refused


def _distant(inbox: Inbox) -> UUID:
    id: UUID = inbox.one("select holdfast.enqueue('effect', delay => interval '1 hour')")
    return id


async def _revive(url: str, id: UUID) -> None:
    async with session(url) as one:
        await one.inbox("revive", [id], "ann@web-1")


async def _stale(url: str, id: UUID, hold: Row) -> list[Row]:
    """The first worker's hold, used while another worker has the row: no statement changes anything."""
    worker, generation = hold["claimed_by"], hold["lease_generation"]
    async with session(url) as one:
        before = await one.row(id)
        done = await one.inbox("complete", [id], [generation], [], [], [], worker, [])
        assert done[0]["completed"] == 0
        # Both parts of the hold count: a worker that is not the owner may know the generation.
        other = await one.inbox("complete", [id], [before["lease_generation"]], [], [], [], worker, [])
        assert other[0]["completed"] == 0
        assert await one.inbox("renew", [id], [generation], worker, 10.0) == []
        assert await one.inbox("hand_back", [id], [generation], worker) == []
        after = await one.row(id)
        keep = ("status", "claimed_by", "lease_generation", "attempts", "available_at")
        assert [before[name] for name in keep] == [after[name] for name in keep]
        last = await one.connection.fetchval("select max(n) from public.trace")
    tried = [(event, generation) for event in ("complete", "renew", "hand_back")]
    return [
        {"n": last + 0.5, "id": id, "event": event, "worker": worker, "generation": given, "at": None}
        for event, given in (*tried, ("complete", before["lease_generation"]))
    ]


def _trace(rows: list[Row], archive: dict[UUID, str], refused: list[Row]) -> list[Row]:
    """The run as events of the rules: what happened to which row, with which values, and what the row is then."""
    texts = {statement(room, name, "holdfast"): event for (room, name), event in STATEMENTS.items()}
    workers: dict[str, int] = {}
    numbers: dict[UUID, int] = {}
    trace: list[Row] = []
    for row in sorted([*rows, *refused], key=lambda each: float(each["n"])):
        number = numbers.setdefault(row["id"], len(numbers))
        if "event" in row:
            values = {"now": trace[-1]["values"]["now"], "worker": workers[row["worker"]], "delay": 0, "lease": 1}
            values |= {"generation": row["generation"], "max_attempts": 0}
            trace.append({"row": number, "event": row["event"], "values": values, "after": None})
            continue
        event = _event(row, texts, archive)
        if event is None:
            continue
        before, after = row["before"], row["after"]
        state = after or {**before, "status": archive[row["id"]]}
        if event == "cancel":
            state = {**state, "cancel_requested_at": True}
        told = _fields(state, workers)
        trace.append({"row": number, "event": event, "values": _values(event, row, told, workers), "after": told})
    return trace


def _event(row: Row, texts: dict[str, str], archive: dict[UUID, str]) -> str | None:
    before, after, said = row["before"], row["after"], row["statement"]
    if before is None:
        return "enqueue"
    event = texts.get(said) or next((name for call, name in CALLS.items() if call in said), None)
    if event == "complete" and archive[row["id"]] == "failed":
        return "end"
    if event == "fail" and after["errors"][-1]["error"] == "WorkerDied":
        return "died"
    if event is None:
        # The chore `archive` moves what was cancelled while it ran; the row had that state before.
        assert after is None, f"no rule for a statement that changes rows:\n{said}"
    return event


def _values(event: str, row: Row, told: Row, workers: dict[str, int]) -> dict[str, int]:
    """What the statement was called with. Times: when the statement read the clock, as far as the row shows it."""
    before, after = row["before"] or {}, row["after"] or {}
    now = _micros(after["claimed_at"] if event == "claim" else row["at"].isoformat())
    holder = (after if event == "claim" else before).get("claimed_by")
    values = {"now": now, "worker": workers.get(str(holder), 0), "generation": before.get("lease_generation", 0)}
    lease = told["lease"] - now if event in ("claim", "renew") else 0
    assert not lease or abs(lease - LEASE * 1e6) < (1 if event == "claim" else 1e6), "the lease that was asked for"
    if event in ("hand_back", "run_now", "revive"):
        assert 0 <= now - told["available"] < 10e6, "available at once"
        values["now"] = told["available"]
    delay = told["available"] - now if event in ("enqueue", "fail", "died", "sweep", "snooze") else 0
    return values | {"lease": lease, "delay": delay, "max_attempts": told["max_attempts"]}


def _fields(row: Row, workers: dict[str, int]) -> Row:
    status = row["status"]
    if status == "failed" and row["cancel_requested_at"]:
        status = "cancelled"
    owner = row["claimed_by"]
    errors = row["errors"] or [{}]
    return {
        "state": status,
        "owner": workers.setdefault(owner, len(workers) + 1) if owner else 0,
        "generation": row["lease_generation"],
        "attempts": row["attempts"],
        "max_attempts": row["max_attempts"],
        "available": _micros(row["available_at"]),
        "lease": _micros(row["lease_expires_at"]) if row["lease_expires_at"] else 0,
        "crashes": row["crashes"],
        "lost": int(errors[-1].get("error") in ("LeaseExpired", "WorkerDied")),
        "cancel": int(row["cancel_requested_at"] is not None),
    }


def _micros(text: str) -> int:
    at = datetime.fromisoformat(text) - datetime(2026, 1, 1, tzinfo=UTC)
    return at // timedelta(microseconds=1)


def _in_python(trace: list[Row]) -> list[Row | None]:
    told = rules()
    rows: dict[int, Any] = {}
    found: list[Row | None] = []
    for each in trace:
        after = told.apply(rows.get(each["row"], told.absent()), each["event"], each["values"])
        if after is not None:
            rows[each["row"]] = after
        found.append(None if after is None else {"state": after.state, **after.fields})
    return found
