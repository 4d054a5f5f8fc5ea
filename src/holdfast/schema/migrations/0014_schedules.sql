-- Schedules: jobs that are enqueued by the clock. Workers fire them; see src/holdfast/schedules.

create table holdfast.schedules (
    name      text collate "C" primary key,
    source    text not null default 'row',                 -- 'code': declared by workers; 'row': put here, at run time
    kind      text not null,
    args      jsonb not null default '{}',
    options   jsonb not null default '{}',                 -- how its jobs are enqueued: see holdfast.terms; and "key"
    cron      text,                                        -- when: cron, on the clocks of tz; or every, from 1970 UTC on
    every     interval,
    tz        text not null default 'UTC',
    missed    text not null default 'latest',
    grace     interval not null default interval '30 seconds',
    jitter    interval not null default interval '0',
    paused_at timestamptz,
    since     timestamptz not null default holdfast.clock(),    -- slots up to here do not count: it was not there, or paused
    last_slot timestamptz,                                 -- the last one that has fired or was skipped
    next_at   timestamptz,                                 -- when there is something to do; null: to be found out
    skipped   bigint not null default 0,                   -- missed slots that got no job
    last_job  uuid,
    error     text,                                        -- why it cannot fire; null: it can
    digest    text,                                        -- of what the code declares
    seen_at   timestamptz,                                 -- when a worker last had it in its code
    revision  bigint not null default 0,                   -- rises with every change, by the trigger "changed"
    constraint schedules_name_is_1_to_128_characters check (char_length(name) between 1 and 128 and octet_length(name) <= 384),
    constraint schedules_source_is_code_or_row check (source in ('code', 'row')),
    constraint schedules_kind_is_1_to_128_characters check (char_length(kind) between 1 and 128),
    constraint schedules_args_is_an_object_without_type check (jsonb_typeof(args) = 'object' and not args ? 'type'),
    constraint schedules_options_is_an_object check (jsonb_typeof(options) = 'object'),
    constraint schedules_has_either_cron_or_every check ((cron is null) <> (every is null)),
    constraint schedules_every_is_whole_seconds_without_months check (
        every >= interval '1 second' and date_part('year', every) = 0 and date_part('month', every) = 0
        and date_part('microseconds', every)::int % 1000000 = 0),
    constraint schedules_missed_is_skip_latest_or_all check (missed in ('skip', 'latest', 'all')),
    constraint schedules_grace_is_not_negative check (grace >= interval '0'),
    constraint schedules_jitter_is_not_negative check (jitter >= interval '0')
);

create index idx_schedules_next on holdfast.schedules (coalesce(next_at, '-infinity')) where paused_at is null;
