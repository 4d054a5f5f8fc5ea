-- The outbox: events, each stored once, and the routes along which they are delivered.
-- Compatible from 16

create sequence holdfast.events_seq;
create sequence holdfast.replays_seq;                            -- numbers replays, so that each makes deliveries of its own

-- Append-only, a partition per day (UTC) of publication. A delivery is a row of the inbox, of the kind @deliver, whose payload
-- names the event and its day.
create table holdfast.events (
    id           uuid not null,
    seq          bigint not null default nextval('holdfast.events_seq'),   -- the order in which they were written, not committed
    published_at timestamptz not null,
    source       text not null,
    type         text not null,
    version      int not null default 1,
    key          text,                                           -- what it is about: order holds within a key
    tenant       text,
    headers      jsonb,
    data         jsonb not null,
    constraint events_pkey primary key (id, published_at),
    constraint events_type_is_1_to_128_characters check (char_length(type) between 1 and 128),
    constraint events_version_is_at_least_1 check (version >= 1)
) partition by range (published_at);
create table holdfast.events_default partition of holdfast.events default;

-- Where events go. Workers and producers put the routes of their code here; nothing in the code removes one.
create table holdfast.routes (
    name         text collate "C" primary key,
    types        text[] not null,                                -- which events: 'order.paid', 'order.*' or '*'
    queue        text not null,                                  -- where its deliveries wait
    ordered      boolean not null default false,                 -- one at a time and in order, per key?
    skips        boolean not null default false,                 -- may others of its key go while one waits for its retry?
    max_attempts int not null default 20,
    destination  text not null default '',                       -- as it is shown
    created_at   timestamptz not null default holdfast.clock(),
    seen_at      timestamptz not null default holdfast.clock(),  -- when a worker last had it in its code
    removed_at   timestamptz,                                    -- gets no more events
    constraint routes_name_is_1_to_100_characters check (name ~ '^[a-z0-9][a-z0-9_-]{0,99}$'),
    constraint routes_types_are_given check (cardinality(types) between 1 and 100),
    constraint routes_max_attempts_is_at_least_1 check (max_attempts >= 1)
);

insert into holdfast.settings (name, value) values
    ('event_days', '30')                                         -- for how long events are kept
on conflict (name) do nothing;

-- Every delivery with its event: waiting, running, dead, and ended.
create view holdfast.outbox as
select d.id as delivery, substr(d.queue, 5) as route, (d.payload ->> 'event')::uuid as event, e.source, e.type, e.version, e.key,
       e.tenant, e.published_at, d.status, d.attempts, d.max_attempts, d.available_at, d.finished_at,
       case when d.status = 'completed' then d.finished_at - e.published_at
            when d.finished_at is null then holdfast.clock() - e.published_at end as lag,
       (d.payload ->> 'endpoint')::uuid as endpoint, coalesce((d.payload ->> 'replay')::int, 0) as replay, d.last_error, d.result,
       d.errors, e.headers, e.data
from (
    select i.id, i.queue, i.payload, i.status::text, i.attempts, i.max_attempts, i.available_at, null::timestamptz as finished_at,
           i.last_error, null::jsonb as result, i.errors
    from holdfast.inbox i
    where i.kind = '@deliver'
    union all
    select a.id, a.queue, a.payload, a.status::text, a.attempts, a.max_attempts, a.available_at, a.finished_at, a.last_error, a.result,
           a.errors
    from holdfast.archive a
    where a.kind = '@deliver'
) d
left join holdfast.events e
    on e.id = (d.payload ->> 'event')::uuid
   and e.published_at >= (d.payload ->> 'on')::date::timestamp at time zone 'UTC'
   and e.published_at < ((d.payload ->> 'on')::date + 1)::timestamp at time zone 'UTC';
