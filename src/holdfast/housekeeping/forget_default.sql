-- Forget ended rows past their retention in the default partition, the one that is never dropped. It holds rows only
-- when no partition was made in time, so this is nearly always an empty look.
-- Takes    $1 batch.
delete from holdfast.archive_default a
where a.ctid = any (array(
    select d.ctid
    from holdfast.archive_default d
    where d.finished_at < holdfast.clock() - make_interval(days => holdfast.setting('archive_days')::int + 1)
    limit $1
))
returning a.id
