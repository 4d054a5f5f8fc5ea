"""The contract of the plans: which index each hot statement reads, and which of its columns bound the scan.

Every statement file of the rooms that touch live work is in HOT or in NOT_HOT; a new one must be put into one of them.
The statements inside functions that read large tables are in NESTED, found by words of theirs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from tests.support.inbox import claim_lanes, guarded_arguments

from holdfast.model.terms import Terms

ROOMS = (
    "inbox",
    "queues",
    "kinds",
    "schedules",
    "housekeeping",
    "ownership",
    "outbox",
    "webhooks",
    "receiving",
    "workflow",
    "metrics",
    "journal",
)
LARGE = ("inbox", "archive", "dedupe", "once", "instances", "steps", "signals")
"""Tables that grow. The others hold a few rows per queue, worker, chore or setting, and may be read in any way."""

Indexes = Mapping[str, str]
"""Each index that is read, with the columns that must bound the scan, `>=` for from below at least; none: it may be
walked from end to end."""


@dataclass(frozen=True)
class Expected:
    indexes: Indexes
    runs: Sequence[Sequence[Any]] = ()
    """Arguments, of one run or several, which together go through every branch of the functions that it calls."""
    before: str = ""
    """SQL that makes the few rows which those branches need."""
    sorts: bool = False
    """It orders the rows that it locks."""
    follows_its_ids: bool = False
    """It locks rows in the order in which their ids are given."""
    worker: bool = True
    """Run with a worker's planner settings; else with the server's own, on connections of applications."""
    functions: Sequence[str] = ()
    """The words in NESTED of the statements that it runs inside functions."""


IDS = sorted(UUID(int=n * 2**100) for n in range(1, 101))
GENERATIONS = [1] * len(IDS)
NOTHING: list[str | None] = [None] * len(IDS)
RECENT = datetime(2026, 1, 1, tzinfo=UTC)
LATER = RECENT + timedelta(days=3650)
LOWEST = UUID(int=0)
QUEUES = ["default", "mail"]
LANES = claim_lanes(QUEUES, [(RECENT, 5)] * 4 * len(QUEUES))

PKEY = {"inbox_pkey": "id"}
ARCHIVE = {"idx_archive_id": "id"}
DEDUPE = {"dedupe_pkey": "key"}
ONCE = {"once_pkey": "key"}
LANE = "queue priority available_at seq"
OF_KEY = {"idx_inbox_key": "queue partition_key", "idx_inbox_partition_processing": "queue partition_key"}

# Rows of their own key and queue, so that the branches below meet them in an inbox of any size.
ORDERED = """
    insert into holdfast.inbox (queue, partition_key, partition_bucket, payload, available_at, ordered, status)
    select 'mail', key, 1, '{"type": "job"}', now() - interval '1 minute', true, status::holdfast.inbox_status
    from unnest(array['waits', 'waits', 'waits', 'vacant 1', 'vacant 2'],
                array['pending', 'pending', 'pending', 'blocked', 'blocked']) as u (key, status)
"""
SCHEDULES = """
    insert into holdfast.schedules (name, kind, every)
    select 'tenant ' || n, 'job', '1 hour' from generate_series(1, 500) n;
    insert into holdfast.schedules (name, kind, every) values ('minutely', 'job', '1 minute')
"""
DELIVERIES = [UUID(int=4)]
ENDPOINTS = f"""
    insert into holdfast.endpoints (url, secrets)
    select 'https://example.com/' || n, '[{{}}]' from generate_series(1, 500) n;
    insert into holdfast.events (id, published_at, source, type, data)
    select case n when 1 then '{DELIVERIES[0]}' else holdfast.uuidv7() end, now(), 'shop', 'order.paid', '{{}}'
    from generate_series(1, 2000) n;
    insert into holdfast.inbox (
        id, partition_key, partition_bucket, payload, queue, status, claimed_by, lease_generation)
    values ('{DELIVERIES[0]}', 'k', 1, jsonb_build_object(
        'type', '@deliver', 'event', '{DELIVERIES[0]}', 'on', to_char(now() at time zone 'UTC', 'YYYY-MM-DD')),
        'out.webhooks', 'processing', 'w1', 1)
"""
LIVE, ENDED, NEW = UUID(int=1), UUID(int=2), UUID(int=3)
KNOWN = f"""
    insert into holdfast.inbox (id, partition_key, partition_bucket, payload)
    values ('{LIVE}', 'k', 1, '{{"type": "job"}}');
    insert into holdfast.inbox (partition_key, partition_bucket, payload, idempotency_key)
    values ('k', 1, '{{"type": "job"}}', 'by hand');
    insert into holdfast.inbox (partition_key, partition_bucket, payload, unique_key, unique_done, expires_at)
    values ('k', 1, '{{"type": "job"}}', 'late', false, now() - interval '1 hour');
    insert into holdfast.archive (
        id, seq, partition_key, partition_bucket, queue, priority, kind, payload, payload_version, status, attempts,
        max_attempts, lease_generation, available_at, created_at, finished_at)
    values ('{ENDED}', 1, 'k', 1, 'default', 1, 'job', '{{"type": "job"}}', 1, 'completed', 1,
            5, 1, now(), now(), now())
"""


PARENT, CHILD = UUID(int=5), UUID(int=6)
FAMILY = f"""
    insert into holdfast.inbox (
        id, partition_key, partition_bucket, payload, headers, status, claimed_by, lease_generation, available_at,
        idempotency_key)
    values ('{PARENT}', 'k', 1, '{{"type": "flow"}}', null, 'pending', null, 1, now() + interval '1 hour', 'flow'),
           ('{CHILD}', 'k', 1, '{{"type": "flow"}}', '{{"holdfast.parent": "{PARENT}"}}', 'processing', 'w1', 1, now(),
            null);
    insert into holdfast.instances (job_id, parked_generation, waits, left_to_wait)
    values ('{PARENT}', 1, array['signal:paid'], 1);
    insert into holdfast.steps (job_id, name, ordinal, kind, status, child_id, generation, started_at)
    values ('{PARENT}', 'child', 0, 'child', 'open', '{CHILD}', 1, now())
"""
HELD_CHILD = f'"id": "{CHILD}", "generation": 1'
RECORDS = (
    f'[{{{HELD_CHILD}, "name": "a", "n": 0, "ordinal": 0, "kind": "step", "status": "done", "signal": 1}}]', False, True
)  # fmt: skip
"""One step, which takes a signal."""
INSTANCES, STEPS = {"instances_pkey": "job_id"}, {"steps_pkey": "job_id"}
SIGNALS = {"signals_pkey": "job_id"}


def once(id: UUID | None, idempotency_key: str | None) -> tuple[Any, ...]:
    """Arguments of enqueue_once."""
    ids = [str(id) if id else None]
    return ids, ["k"], ['{"type": "job"}'], [idempotency_key], [1], [TERMS.text]


def unique(replace: str | None, idempotency_key: str | None = None, key: str = "u") -> tuple[Any, ...]:
    """Arguments of enqueue_once for a unique job."""
    terms = Terms(kind="job", queue="default", priority=1, max_attempts=5, version=1, unique_key=key, replace=replace)
    return [None], ["k"], ['{"type": "job"}'], [idempotency_key], [1], [terms.text]


TERMS = Terms(kind="job", queue="default", priority=1, max_attempts=5, version=1)


HOT: dict[str, Expected] = {
    # The claim
    "inbox/claim": Expected(
        {"idx_inbox_claim": LANE, "idx_inbox_suspect": "available_at",
         "idx_inbox_ordered_claim": "queue priority available_at", "Tid Scan": ""},
        [(*LANES, 100, ["job"], "{}", "w1", 90.0, True, True)],
    ),
    "inbox/claim_guarded": Expected(
        {},
        [guarded_arguments(take=1, queues=QUEUES[::-1], buckets=[1, 2], rescan=True,
                           vacated=[("mail", "vacant 1"), ("mail", "vacant 2")]),
         guarded_arguments(queues=QUEUES, suspects=True)],
        before=ORDERED,
        functions=["shared as materialized", "i.crashes > 0", "select v.queue, v.key", "head.id as head",
                   "lockable as materialized", "behind as materialized", "free as materialized",
                   "i.ctid = any (places)"],
    ),
    "inbox/followers": Expected(
        {"idx_inbox_key": "queue partition_key"}, [(["mail"] * 2, ["waits", "vacant 1"], 9, ["job"], "{}")],
        before=ORDERED,
    ),
    "inbox/blocked": Expected({"idx_inbox_blocked": "queue"}, [(["mail", "nothing"],)], before=ORDERED),
    "inbox/patrol": Expected(
        {"idx_inbox_claim": LANE}, [("default", 1, RECENT, 0, RECENT, 9, 2000, ["job"], "{}")]
    ),
    # Endings, and what is in flight
    "inbox/complete": Expected(
        {**PKEY, **DEDUPE}, [(IDS, GENERATIONS, NOTHING, NOTHING, NOTHING, "w1", [])], follows_its_ids=True
    ),
    "inbox/end_convoys": Expected(
        PKEY, [(IDS, GENERATIONS, IDS, GENERATIONS, NOTHING, [0.0] * len(IDS), "w1")], sorts=True
    ),
    "inbox/drop": Expected(PKEY, [(IDS, GENERATIONS, "w1")], follows_its_ids=True),
    "inbox/expire": Expected({}, [(IDS, GENERATIONS, "w1")], functions=["expired as materialized"]),
    "inbox/fail": Expected(
        {}, [(IDS, GENERATIONS, NOTHING, NOTHING, [None], [False], [False], "w1")], functions=["when f.crashed then"]
    ),
    "inbox/fail_snoozed": Expected(
        PKEY, [(IDS, GENERATIONS, "w1")], follows_its_ids=True, functions=["when f.crashed then"]
    ),
    "inbox/snooze": Expected(
        PKEY, [(IDS, GENERATIONS, [1.0] * len(IDS), [True] * len(IDS), "w1")], follows_its_ids=True
    ),
    "inbox/renew": Expected(PKEY, [(IDS, GENERATIONS, "w1", 90.0)], sorts=True),
    "inbox/progress": Expected(PKEY, [(IDS, GENERATIONS, ["{}"] * len(IDS), "w1")], sorts=True),
    "inbox/hand_back": Expected(PKEY, [(IDS, GENERATIONS, "w1")], sorts=True),
    # Once per death of a worker, what is in flight.
    "inbox/hand_back_worker": Expected({"idx_inbox_stale_processing": "", **PKEY}, [("w1",)]),
    # Once per claim whose answer was lost, the same.
    "inbox/claimed_by": Expected({"idx_inbox_stale_processing": ""}, [("w1",)]),
    "inbox/held": Expected(PKEY, [(IDS, GENERATIONS, "w1")]),
    "inbox/gone": Expected({**PKEY, **ARCHIVE}, [(IDS,)]),
    "inbox/names": Expected(PKEY, [(IDS,)]),
    "inbox/confirm": Expected(ARCHIVE, [(IDS, GENERATIONS, "w1")]),
    # It holds only what was cancelled while running.
    "inbox/cancelled": Expected({"idx_inbox_cancel": ""}, [(["w1", "w2"],)]),
    "inbox/once_enter": Expected({**PKEY, **ONCE}, [("key", IDS[0], 5)]),
    "inbox/once_finish": Expected(ONCE, [("key", 5)]),
    # Producers and operators, on connections that have nobody's planner settings
    "inbox/enqueue": Expected({}, [(str(NEW), "k", 1, '{"type": "job"}', *(TERMS.plain or ()), "job")], worker=False),
    "inbox/enqueue_many": Expected(
        {}, [([str(NEW)], ["k"], [1], ['{"type": "job"}'], [1], [TERMS.text])], worker=False
    ),
    "inbox/enqueue_copy": Expected({}, [(TERMS.text, 1)], worker=False),
    "inbox/enqueue_once": Expected(
        {},
        [once(NEW, "new"), once(NEW, "new"), once(LIVE, None), once(None, "by hand"), once(ENDED, "ended"),
         unique(None), unique(None), unique("arguments", "another"), unique(None, key="late")],
        before=KNOWN,
        worker=False,
        functions=["select d.* ", "where i.id = job", "i.idempotency_key = store_job", "set job_id = other.id",
                   "from holdfast.archive a", "delete from holdfast.inbox", "set expires_at =",
                   "set payload = store_job.payload", "i.status <> 'dead_letter'",
                   "set job_id = made", "expired as materialized",
                   "select distinct t.id from unnest(ids) as t (id)"],
    ),
    "inbox/enqueue_call": Expected(
        {}, [("job", "{}", "default", None, None, 1, key, 5, 1, None) for key in ("new", "new", None)], worker=False,
        functions=["select d.* "],
    ),
    "inbox/left": Expected(PKEY, [(IDS,)], worker=False),
    "inbox/outcomes": Expected({**PKEY, **ARCHIVE}, [(IDS,)], worker=False),
    "inbox/cancel": Expected(
        {}, [(IDS[0], "enough", "ann")], worker=False, functions=["told as (", "select distinct n.id, n.parent"]
    ),
    "inbox/cancel_many": Expected({}, [(IDS, "enough", "ann")], worker=False, functions=["told as ("]),
    "inbox/discard": Expected({}, [(IDS, "ann")], worker=False, functions=["dead as materialized"]),
    "inbox/run_now": Expected({}, [(IDS, "ann")], worker=False, functions=["waiting as materialized"]),
    # Housekeeping
    "housekeeping/due": Expected({"chores_pkey": "name"}, [(["sweep", "bury"], [10.0, 10.0], [10.0, 10.0])]),
    "housekeeping/take": Expected({}, [("lock",)]),
    "housekeeping/turn": Expected({"chores_pkey": "name"}, [("sweep", 10.0, 10.0, None)]),
    "housekeeping/done": Expected({}, [("sweep", RECENT, 5, False, 10.0, None)]),
    "housekeeping/failed": Expected({}, [("sweep", "why", 10.0)]),
    "housekeeping/sweep": Expected(
        {"idx_inbox_stale_processing": "lease_expires_at>= id", **PKEY}, [(RECENT, LOWEST, LATER, 1000)], sorts=True
    ),
    "housekeeping/end_sessions": Expected(
        {"idx_inbox_stale_processing": "lease_expires_at>= id", **PKEY}, [(RECENT, LOWEST, LATER, 1000)], sorts=True
    ),
    "housekeeping/bury": Expected({"idx_inbox_exhausted": "", **PKEY}, [(1000,)]),
    "housekeeping/mend_dead": Expected({"idx_inbox_dead": "dead_at", **PKEY}, [(1000,)]),
    "housekeeping/archive": Expected({"idx_inbox_finished": "id", **PKEY, **DEDUPE}, [(1000, LOWEST)]),
    "housekeeping/expire": Expected(
        {"idx_inbox_expires": "expires_at>="}, [(RECENT, 1000)], sorts=True, functions=["expired as materialized"]
    ),
    "housekeeping/blocked_keys": Expected(
        {"idx_inbox_blocked": "queue partition_key", **OF_KEY}, [("", "", 1000)],
    ),
    "housekeeping/forget_dedupe": Expected(
        {"idx_dedupe_expires": "expires_at>=", **DEDUPE}, [(500, RECENT)], sorts=True
    ),
    "housekeeping/forget_once": Expected({"idx_once_done": "done_at>=", **ONCE}, [(500, RECENT)], sorts=True),
    "housekeeping/forget_entered": Expected(
        {"idx_once_entered": "entered_at>=", **ONCE, **PKEY}, [(500, RECENT)], sorts=True
    ),
    "housekeeping/unblock": Expected(
        {}, [(["mail", "mail"], ["vacant 1", "vacant 2"])], before=ORDERED, functions=["head as materialized"]
    ),
    "housekeeping/disown": Expected({"idx_inbox_bucket_claim": "queue", **PKEY}, [(1000, 10_000)]),
    "housekeeping/members": Expected({}, [(90.0,)]),
    # Once a minute per host
    "kinds/unknown": Expected(
        {"idx_inbox_claim": "queue priority available_at", "idx_inbox_ordered_claim": "queue priority available_at",
         "idx_inbox_bucket_claim": "queue"},
        [(QUEUES, ["other"], "{}", 1000)],
    ),
    # Schedules
    "schedules/due": Expected({"idx_schedules_next": "next_at"}, [([], 10.0, 100)], before=SCHEDULES),
    "schedules/fire": Expected(
        {}, [("minutely", 0, [LATER], LATER, 0, LATER), ("minutely", 1, [LATER], LATER, 0, LATER)], before=SCHEDULES,
    ),
    # Webhooks
    "webhooks/fan_out": Expected(PKEY, [(DELIVERIES, [1], "w1", 10)], before=ENDPOINTS, sorts=True),
    "webhooks/postpone": Expected(PKEY, [(DELIVERIES, [1], [1.0], "w1")], before=ENDPOINTS, sorts=True),
    "webhooks/load": Expected({}, [(DELIVERIES,)], before=ENDPOINTS),
    "webhooks/health": Expected({}, [(DELIVERIES, DELIVERIES)], before=ENDPOINTS, sorts=True),
    # Events
    "outbox/publish": Expected(
        {},
        [
            ([str(NEW)], ["order.paid"], [1], ["k"], [None], [None], ["{}"], None, brought, guarded, None)
            for brought, guarded in ((True, False), (False, True), (False, False))
        ],
        before=ENDPOINTS, worker=False,
    ),
    "outbox/events": Expected({}, [(DELIVERIES, [RECENT.date()], 1000)]),
    # Messages from others
    "receiving/store": Expected(
        {},
        [([NEW], ["k"], ['{"type": "job"}'], [None], [key], [1], [TERMS.text]) for key in ("new", "new")],
        worker=False,
        functions=["d.job_id is distinct from"],
    ),
    "receiving/store_held": Expected(
        {},
        [([NEW], ["k"], ['{"type": "job"}'], [None], ["new"], [1], [TERMS.text], "bus", "w1", 1, 30.0)],
        before="insert into holdfast.consumers (name, holder, expires_at) values ('bus', 'w1', now())",
        functions=["d.job_id is distinct from"],
    ),
    # Workflows
    "workflow/record": Expected(
        {}, [("w1", *RECORDS)], before=FAMILY,
        functions=["array_agg(i.id) filter (where i.alive)", "set taken_by = r.name",
                   "array_agg(h.id) filter (where h.stopped)"],
    ),
    "workflow/load": Expected({**INSTANCES, **STEPS, **SIGNALS}, [(IDS,)]),
    "workflow/park": Expected(
        {}, [("w1", f'[{{{HELD_CHILD}, "mail": 0, "waits": []}}]', *RECORDS)], before=FAMILY,
        functions=["for no key update skip locked\n    ) s on true", "select true as it\n        from holdfast.inbox i",
                   "when i.cancelled and undo.it is null", "u.state = 'new' and s.it",
                   "pg_try_advisory_xact_lock(holdfast.instance_lock(u.id))"],
    ),
    "workflow/lock": Expected(PKEY, [(PARENT,)]),
    "workflow/cancel_children": Expected({**PKEY, **STEPS}, [(PARENT, 1, "w1")]),
    "workflow/parked": Expected({**PKEY, **INSTANCES}, [(IDS, GENERATIONS)]),
    "workflow/end": Expected(
        {**PKEY, **DEDUPE, **INSTANCES, **STEPS, **SIGNALS},
        [(IDS, GENERATIONS, NOTHING, NOTHING, NOTHING, "w1", [], [], [])], sorts=True,
    ),
    "workflow/end_children": Expected(
        {}, [("w1", [CHILD], [1], [], [], [], [], [], [])], before=FAMILY,
        functions=["select holdfast.parent_of(i.headers) as id", "present.it is null", "w.waits is not true",
                   "where c.free", "heard as (", "woken as ("],
    ),
    "workflow/signal": Expected(
        {}, [(name, "paid", "null", None, "ann") for name in ("flow", str(PARENT), str(ENDED), "nobody")],
        before=FAMILY, worker=False,
        functions=["i.idempotency_key = instance", "i.id = instance::uuid", "d.key = instance", "a.id = instance::uuid",
                   "s.job_id = job for no key update", "s.mail + 1, signal.name", "set mail = number",
                   "'signal:' || signal.name", "i.lease_generation = s.parked_generation"],
    ),
    "housekeeping/archive_children": Expected(
        {}, [(1000, LOWEST)], functions=["i.id > after"],
    ),
    "housekeeping/tell_missed": Expected(
        {"idx_steps_child": "child_id", **PKEY}, [(1000, LOWEST)], functions=["array_agg(a.last_error)"],
    ),
    "housekeeping/note_bursts": Expected(
        {"idx_inbox_dead": "dead_at"}, [(RECENT, LATER, 10, 10_000)], sorts=True
    ),
    "housekeeping/fold_instances": Expected({**PKEY, **INSTANCES}, [(1000, LOWEST)]),
    "housekeeping/fold_steps": Expected({**PKEY, **STEPS}, [(1000, LOWEST)]),
    # The registry of workers
    "ownership/heartbeat": Expected({}, [(["w1"], ["{}"])]),
    "ownership/live": Expected({}, [(QUEUES,)]),
}  # fmt: skip

NESTED: dict[str, Expected] = {
    # holdfast.record_steps and park_instances
    "array_agg(i.id) filter (where i.alive)": Expected(PKEY),
    "set taken_by = r.name": Expected({"signals_pkey": "job_id n"}),
    "array_agg(h.id) filter (where h.stopped)": Expected({**PKEY, **INSTANCES}),
    "when i.cancelled and undo.it is null": Expected({**PKEY, "steps_pkey": "job_id name n"}),
    # holdfast.end_children and its parts; other endings use them, too
    "select holdfast.parent_of(i.headers) as id": Expected(PKEY),
    "w.waits is not true": Expected(PKEY),
    "where c.free": Expected({**PKEY, **DEDUPE}),
    "array_agg(a.last_error)": Expected({"idx_steps_child": "child_id", **INSTANCES, **ARCHIVE}),
    "heard as (": Expected({"idx_steps_child": "child_id", **STEPS, **INSTANCES}),
    "woken as (": Expected({**PKEY, **INSTANCES}),
    "select distinct n.id, n.parent": Expected({**PKEY, **INSTANCES}, sorts=True),
    "i.id > after": Expected({"idx_inbox_finished": "id"}),
    # holdfast.park_instances
    "pg_try_advisory_xact_lock(holdfast.instance_lock(u.id))": Expected(INSTANCES),
    "u.state = 'new' and s.it": Expected(INSTANCES),
    "for no key update skip locked\n    ) s on true": Expected(INSTANCES),
    "select true as it\n        from holdfast.inbox i": Expected(PKEY),
    # holdfast.lock_parents and fold_ended
    "present.it is null": Expected(INSTANCES),
    "select distinct t.id from unnest(ids) as t (id)": Expected({**INSTANCES, **STEPS}),
    # holdfast.signal and instance_id
    "s.job_id = job for no key update": Expected(INSTANCES),
    "s.mail + 1, signal.name": Expected(INSTANCES),
    "set mail = number": Expected(INSTANCES),
    "i.idempotency_key = instance": Expected({"idx_inbox_idempotency_key": "idempotency_key"}),
    "i.id = instance::uuid": Expected(PKEY),
    "d.key = instance": Expected(DEDUPE),
    "a.id = instance::uuid": Expected(ARCHIVE),
    "'signal:' || signal.name": Expected({**PKEY, **INSTANCES}),
    "i.lease_generation = s.parked_generation": Expected({**PKEY, **INSTANCES}),
    # holdfast.claim_guarded and its parts, whose plans are always generic
    "shared as materialized": Expected(
        {"idx_inbox_ordered_claim": LANE, "idx_inbox_bucket_claim": f"partition_bucket {LANE}"}
    ),
    "i.crashes > 0": Expected({"idx_inbox_suspect": "available_at"}),
    "select v.queue, v.key": Expected(
        {"idx_inbox_blocked": "queue partition_key"}
    ),
    "head.id as head": Expected(OF_KEY),
    "lockable as materialized": Expected(PKEY),
    "behind as materialized": Expected(PKEY),
    "free as materialized": Expected(PKEY),
    "i.ctid = any (places)": Expected({"Tid Scan": ""}),
    # holdfast.fail_attempts
    "when f.crashed then": Expected(PKEY),
    # holdfast.cancel_jobs, discard and run_now
    "told as (": Expected({**PKEY, **DEDUPE}, sorts=True),
    "dead as materialized": Expected({**PKEY, **DEDUPE}, sorts=True),
    "waiting as materialized": Expected(PKEY, sorts=True),
    # holdfast.expire_jobs
    "expired as materialized": Expected({**PKEY, **DEDUPE}, sorts=True),
    # holdfast.unblock_heads
    "head as materialized": Expected(
        {**OF_KEY, **PKEY}
    ),
    # holdfast.reserve_key and store_job
    "select d.* ": Expected(DEDUPE),
    "delete from holdfast.inbox": Expected(PKEY),
    "where i.id = job": Expected(PKEY),
    "i.idempotency_key = store_job": Expected({"idx_inbox_idempotency_key": "idempotency_key"}),
    "set job_id = other.id": Expected(DEDUPE),
    "from holdfast.archive a": Expected(ARCHIVE),
    "set expires_at =": Expected(DEDUPE),
    "set payload = store_job.payload": Expected({"idx_inbox_unique": "kind unique_key"}),
    "i.status <> 'dead_letter'": Expected({"idx_inbox_unique": "kind unique_key"}),
    "set job_id = made": Expected(DEDUPE),
    # holdfast.receive_messages
    "d.job_id is distinct from": Expected(DEDUPE),
}  # fmt: skip

NOT_HOT = {
    "inbox/end_sessions": "once per death of a worker process, on what the server's sessions are doing",
    "queues/pause": "an operator's verb, on one row of queues",
    "queues/resume": "an operator's verb, on one row of queues",
    "queues/set": "an operator's verb, on one row of queues",
    "kinds/declare": "once in the life of a process, on the rows of the code's kinds",
    "kinds/unkept": "after a lost answer to an enqueue, on the rows of its kinds",
    "schedules/declare": "every 30 s, on the rows of the code's schedules",
    "schedules/failed": "every 10 s for a schedule that cannot fire, one row of schedules",
    "schedules/put": "an application's verb, one row of schedules",
    "schedules/list": "an operator's question, on all schedules",
    "schedules/pause": "an operator's verb, one row of schedules",
    "schedules/resume": "an operator's verb, one row of schedules",
    "schedules/remove": "an operator's verb, one row of schedules",
    "schedules/reset": "an operator's verb, one row of schedules",
    "schedules/trigger": "an operator's verb, one row of schedules",
    "inbox/revive": "an operator's verb, without a worker's planner settings: it may read all of a small inbox",
    "inbox/ask_again": "after a lost answer, one row into a table that is empty else",
    "housekeeping/forget_journal": "once a minute, on a table of a few rows an hour",
    "journal/write": "a few rows an hour",
    "journal/entries": "an operator's question, on the rows of some hours",
    "journal/pickups": "an operator's question, on the minutes of some hours",
    "housekeeping/forget_asked_again": "once a minute, on a table that is empty unless answers were lost",
    "housekeeping/make_partitions": "once an hour, on the catalogue",
    "housekeeping/drop_partitions": "once an hour, on the catalogue",
    "housekeeping/gauges": "bounded by the functions that it calls; tests/plans/test_gauges.py looks at their plans",
    "housekeeping/merge_minutes": "once an hour, on the rows of minutes, of which there are some per minute and kind",
    "housekeeping/forget_minutes": "once an hour, on the rows of minutes",
    "metrics/add_minutes": "once a minute, rows of minutes by their keys",
    "housekeeping/forget_default": "once an hour, on a partition that is empty unless none was made in time",
    "webhooks/add": "an operator's verb, one row of endpoints",
    "webhooks/attempts": "an operator's question, on all deliveries",
    "webhooks/attempts_lately": "an operator's question, on the newest events",
    "webhooks/change": "an operator's verb: it walks what waits for all endpoints",
    "webhooks/list": "an operator's question, on all endpoints",
    "webhooks/recover_dead": "an operator's verb, on the dead letters",
    "webhooks/recover_missed": "an operator's verb, on the events of some days",
    "webhooks/replay": "an operator's verb, on the events of some days",
    "webhooks/rotate": "an operator's verb, one row of endpoints",
    "outbox/declare_routes": "once in the life of a process, on rows of routes",
    "outbox/deliveries": "an operator's question, on some events",
    "outbox/lately": "an operator's question, on the last pages of the archive",
    "outbox/next_replay": "an operator's verb, draws a number",
    "outbox/recent": "an operator's question, on the newest events",
    "outbox/remove_route": "an operator's verb, one row of routes",
    "outbox/replay": "an operator's verb, on the events of some days",
    "outbox/routes": "an operator's question, on rows of routes",
    "outbox/show": "an operator's question, on one event",
    "workflow/find": "an operator's question, on one row",
    "workflow/list": "an operator's question, on all live instances",
    "workflow/show": "an operator's question, on one instance",
    "workflow/pause": "an operator's verb, on one instance",
    "workflow/resume": "an operator's verb, on one instance",
    "workflow/restart": "an operator's verb, on one instance",
    "receiving/take": "every few seconds, one row of consumers",
    "receiving/give_back": "once in the life of a process, one row of consumers",
    "ownership/drain": "an operator's verb, on rows of workers",
    "ownership/register": "once in the life of a process, one row of workers",
    "ownership/leave": "once in the life of a process, one row of workers",
    "ownership/absent": "once per standstill of a process, one row of workers",
}
