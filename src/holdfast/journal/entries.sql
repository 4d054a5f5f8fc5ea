-- What happened in a span of time, oldest first.
-- Takes    $1 since, $2 before, $3 the most rows: the newest ones.
-- Returns  at, until, what, subject, actor, count, details (JSON), id.
-- Index    idx_journal_at.
select e.at, e.until, e.what, e.subject, e.actor, e.count, e.details, e.id
from (
    select j.at, j.until, j.what, j.subject, j.actor, j.count, j.details::text as details, j.id
    from holdfast.journal j
    where j.at >= $1::timestamptz and j.at < $2::timestamptz
    order by j.at desc
    limit $3::int
) e
order by e.at, e.id
