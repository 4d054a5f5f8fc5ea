-- How long an idempotency key is remembered, by key: the ids of received messages are remembered longer than others.
-- Compatible from 16

-- Seconds after the end of the job; null: the setting dedupe_horizon. Releases before this one do not read it.
alter table holdfast.dedupe add column horizon float8;
insert into holdfast.settings (name, value) values ('message_horizon', '2592000');    -- seconds: 30 days

-- Who consumes from a broker: one worker at a time for each consumer, because order is lost if two fetch in turns.
create table holdfast.consumers (
    name       text collate "C" primary key,                     -- the broker, and what is consumed
    holder     text collate "C" not null,                        -- a worker
    generation bigint not null default 1,                        -- one up with every other holder
    since      timestamptz not null default holdfast.clock(),
    expires_at timestamptz not null                              -- others may take it then, or when the holder is marked as dead
);
