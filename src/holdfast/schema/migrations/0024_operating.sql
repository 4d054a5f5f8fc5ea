-- The operating surface: numbers that are stored instead of counted, a journal of what happened, and error groups.
-- Compatible from 16

-- The newest value of each number that is too dear to count when somebody asks. The chore `gauges` writes them.
create table holdfast.gauges (
    name  text collate "C" not null,
    queue text collate "C" not null default '',        -- '': of the whole installation
    kind  text collate "C" not null default '',        -- a kind of jobs, or a workflow
    label text collate "C" not null default '',        -- what else it is about: a state, a route
    value float8 not null,
    exact boolean not null default true,               -- false: estimated from a sample
    at    timestamptz not null,                        -- when it was measured
    primary key (name, queue, kind, label)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1);

-- What attempts did, per minute, queue and kind; after two days, per ten minutes. Supervisors add what they have counted.
-- The rows with the kind '' are of a queue: the chore `gauges` writes what waited there. Those with neither are of the
-- whole installation: what cannot be counted by kind.
create table holdfast.minutes (
    at         timestamptz not null,                   -- when the minute, or the ten minutes, began
    queue      text collate "C" not null,
    kind       text collate "C" not null,
    started    bigint not null default 0,
    completed  bigint not null default 0,
    failed     bigint not null default 0,
    cancelled  bigint not null default 0,
    expired    bigint not null default 0,
    retried    bigint not null default 0,
    dead       bigint not null default 0,
    snoozed    bigint not null default 0,
    parked     bigint not null default 0,              -- runs of workflows that ended by waiting
    fenced     bigint not null default 0,              -- endings that were not written: another worker may have the row
    lease_losses bigint not null default 0,
    reconnects bigint not null default 0,
    run        bigint[] not null default '{}',         -- how long attempts ran: counts per power of two, from 2^-10 s
    pickup     bigint[] not null default '{}',         -- how long due jobs waited for their claim, likewise
    run_sum    float8 not null default 0,
    pickup_sum float8 not null default 0,
    depth      bigint,                                 -- of a queue: the most jobs that were pending
    claim_age  float8,                                 -- of a queue: the longest that due work had waited, in seconds
    primary key (at, queue, kind)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- What happened to the installation, and who did it. Written by those who act, at a bounded rate; kept for weeks.
create table holdfast.journal (
    id      bigint generated always as identity primary key,
    at      timestamptz not null,
    until   timestamptz,                               -- of what lasted, and is over
    what    text collate "C" not null,
    subject text collate "C" not null default '',      -- a worker, a queue, a kind, a schedule, an endpoint, a job
    actor   text,                                      -- who did it: a login, user@host; null: Holdfast itself
    count   bigint not null default 1,
    details jsonb not null default '{}',
    slot    timestamptz                                -- kinds that happen often share a row per slot
);

insert into holdfast.settings (name, value) values ('journal_days', '42');      -- how long rows of the journal are kept

create index idx_journal_at on holdfast.journal (at);
create unique index idx_journal_slot on holdfast.journal (what, subject, slot) where slot is not null;

-- Which failed attempts are alike: the same kind, exception and place. Written with the error.
alter table holdfast.inbox add column error_group text collate "C";
create index idx_inbox_error_group on holdfast.inbox (error_group, dead_at, id) where status = 'dead_letter';
