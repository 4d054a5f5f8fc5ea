-- What is kept of completed jobs, by kind.
-- Compatible from 16

-- Days; 0: a completed job leaves no row; null: the setting archive_days.
alter table holdfast.kinds
    add column keep_days int,
    add constraint kinds_keep_days_is_not_negative check (keep_days >= 0);
