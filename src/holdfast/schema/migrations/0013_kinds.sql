-- What the code says about each kind of job, for those who act without the code: the sweep, SQL, operators. Workers write
-- it when they start; a lower version of a kind never overwrites a higher one.
create table holdfast.kinds (
    kind         text collate "C" primary key,
    version      int not null,
    app          text not null,             -- the package that declares it
    arguments    jsonb not null,            -- {name: type}, to notice another task of the same name
    retry_base   float8,                    -- seconds; null: the settings backoff_…
    retry_factor float8,
    retry_cap    float8,
    retry_jitter float8,
    max_snoozes  int,                       -- null: the setting
    seen_at      timestamptz not null default now()
);

insert into holdfast.settings (name, value) values ('max_snoozes', '1000') on conflict (name) do nothing;

alter table holdfast.inbox add column snoozes int;
