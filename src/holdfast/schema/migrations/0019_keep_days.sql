-- For how long completed jobs are kept, by kind.
-- Compatible from 16

-- Of a completed job whose task says so; null: the setting archive_days. Releases before this one write null.
alter table holdfast.archive add column keep_days int;

-- The numbers of days that tasks have declared. Each day of the archive has a partition for each of them. A number stays here
-- when its task changes: rows that were written with it may be in partitions that are older than it.
create table holdfast.keep_classes (
    days    int primary key,
    since   timestamptz not null,                                -- no job that ended before was kept for that long
    seen_at timestamptz not null,                                -- when a kind had it last
    constraint keep_classes_days_are_above_zero check (days > 0)
);
