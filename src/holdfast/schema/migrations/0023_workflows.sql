-- Workflows: an instance is an inbox row; its steps, its signals and what it waits for are rows beside it.
-- Compatible from 16

-- Written when an instance first waits, or is signalled, paused or restarted: one that runs through leaves no row here.
-- Its row lock orders signals and parking, so it is locked before the inbox row, always.
create table holdfast.instances (
    job_id            uuid primary key,
    mail              bigint not null default 0,       -- one up with everything that a parked instance must see
    parked_generation bigint,                          -- the hold that parked it: stale as soon as the row is claimed again
    waits             text[],                          -- on what: 'signal:NAME', 'timer:STEP', 'child:STEP', 'retry:STEP'
    waits_since       timestamptz,
    wake_at           timestamptz,                     -- its earliest timer
    left_to_wait      int,                             -- how many children must end before it is worth waking
    paused_at         timestamptz
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

-- What an instance has done, and what it waits for. The end folds them into archive.steps.
create table holdfast.steps (
    job_id     uuid not null,
    name       text collate "C" not null,
    n          int not null default 0,                 -- which of several with this name, in loops and maps
    ordinal    int not null,                           -- in the order in which they began
    kind       text not null check (kind in ('step', 'sleep', 'wait', 'child', 'patch', 'value', 'undo')),
    status     text not null check (status in ('open', 'done', 'failed', 'timed_out')),
    result     json,                                   -- not jsonb: keys come back in the order in which the code saw them
    errors     jsonb,                                  -- of failed attempts, the last ten
    attempts   int not null default 0,
    digest     bigint,                                 -- of the arguments, to notice when they change
    wake_at    timestamptz,                            -- of a sleep, of a wait with a timeout
    child_id   uuid,                                   -- the job of a child
    generation bigint not null,                        -- the hold that wrote it last
    started_at timestamptz not null,
    ended_at   timestamptz,
    primary key (job_id, name, n)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);

create index idx_steps_child on holdfast.steps (child_id) where child_id is not null;

create table holdfast.signals (
    job_id    uuid not null,
    n         bigint not null,                         -- the mail that it was
    name      text collate "C" not null,
    payload   jsonb,
    signal_id text collate "C",
    sent_at   timestamptz not null,
    taken_by  text collate "C",                        -- the step that took it
    primary key (job_id, n)
) with (autovacuum_vacuum_scale_factor = 0.02);

create unique index idx_signals_id on holdfast.signals (job_id, signal_id) where signal_id is not null;

-- Of an instance: its steps, and the signals that nothing took.
alter table holdfast.archive add column steps jsonb;

-- Cancelling a workflow undoes its steps first; cancelling another job ends it.
alter table holdfast.kinds add column workflow boolean not null default false;

-- Where each live instance stands, and on what it waits since when.
create view holdfast.workflows as
    select i.idempotency_key as instance, i.id as job_id, i.kind as workflow, i.payload_version as version,
           case when i.status = 'dead_letter' and i.errors -> -1 ->> 'error' = 'HistoryMismatch' then 'needs attention'
                when i.status = 'dead_letter' then 'dead letter'
                when s.paused_at is not null and i.status <> 'processing' then 'paused'
                when undo.status is not null then 'undoing'
                when i.status = 'processing' then 'running'
                when i.status = 'pending' and i.available_at > holdfast.clock() and i.lease_generation = s.parked_generation
                then case when s.waits @> array['pause'] then 'paused'
                          when array_to_string(s.waits, ' ') ~ '(^| )(signal|child):' then 'waiting'
                          when array_to_string(s.waits, ' ') ~ '(^| )retry:' then 'retrying'
                          else 'sleeping' end
                when i.attempts > 0 then 'retrying'
                else 'queued' end as state,
           case when i.status = 'dead_letter' then i.dead_at
                when s.paused_at is not null and i.status <> 'processing' then s.paused_at
                when i.status = 'processing' then i.claimed_at
                when i.lease_generation = s.parked_generation then s.waits_since
                else i.created_at end as since,
           case when i.status = 'pending' and i.lease_generation = s.parked_generation then s.waits end as waits,
           case when i.status = 'pending' and s.paused_at is null then least(s.wake_at, i.available_at) end as wake_at,
           -- A dead letter among the jobs that it waits for: it waits until somebody revives or discards that.
           case when i.status = 'pending' and i.lease_generation = s.parked_generation and s.left_to_wait > 0
                then array(select c.child_id
                           from holdfast.steps c
                           join holdfast.inbox d on d.id = c.child_id
                           where c.job_id = i.id and c.kind = 'child' and c.status = 'open' and d.status = 'dead_letter')
                else '{}' end as dead_children,
           i.cancel_requested_at, s.paused_at, (i.headers ->> 'holdfast.parent') as parent_id, i.queue, i.priority, i.claimed_by,
           i.lease_generation as runs, i.last_error, i.errors, i.payload, i.created_at
    from holdfast.inbox i
    join holdfast.kinds k on k.kind = i.kind and k.workflow
    left join holdfast.instances s on s.job_id = i.id
    left join holdfast.steps undo on undo.job_id = i.id and undo.name = 'undo:' and undo.n = 0;

-- The steps of live instances, in the order in which they began.
create view holdfast.workflow_steps as
    select i.idempotency_key as instance, s.job_id, i.kind as workflow, s.ordinal, s.name, s.n, s.kind, s.status, s.result,
           s.errors, s.attempts, s.wake_at, s.child_id, s.started_at, s.ended_at
    from holdfast.steps s
    join holdfast.inbox i on i.id = s.job_id;
