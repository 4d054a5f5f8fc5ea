-- Dead letters of the last day, and how many there are in all.
-- Takes    $1 seconds, $2 how far to count.
-- Index    idx_inbox_dead.
select (select count(*) from (
            select from holdfast.inbox d
            where d.status = 'dead_letter' and d.dead_at > holdfast.clock() - make_interval(secs => $1::float8)
            limit $2::int
        ) l) as lately,
       (select count(*) from (select from holdfast.inbox d where d.status = 'dead_letter' limit $2::int) a) as altogether,
       (select d.kind || ': ' || coalesce(d.last_error, '') from holdfast.inbox d
        where d.status = 'dead_letter' order by d.dead_at desc nulls last limit 1) as sample
