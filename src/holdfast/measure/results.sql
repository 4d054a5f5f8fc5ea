-- What the jobs of a kind returned, in the order in which they were enqueued.
-- Takes    $1 kind.
select a.result::text
from holdfast.archive a
where a.kind = $1 and a.status = 'completed'
order by a.seq
