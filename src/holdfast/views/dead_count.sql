-- How many dead letters match, up to a number, and since when.
-- Takes    $1 not later than, $2 error group, $3 queue, $4 kind, $5 text in the last error (each null: any), $6 count up to.
-- Index    idx_inbox_dead, or idx_inbox_error_group for one group.
select count(*) as jobs, pg_catalog.min(d.dead_at) as oldest
from (
    select i.dead_at
    from holdfast.inbox i
    where i.status = 'dead_letter'
      and i.dead_at <= $1::timestamptz
      and ($2::text is null or i.error_group = $2::text)
      and ($3::text is null or i.queue = $3::text)
      and ($4::text is null or i.kind = $4::text)
      and ($5::text is null or pg_catalog.strpos(i.last_error, $5::text) > 0)
    limit $6
) d
