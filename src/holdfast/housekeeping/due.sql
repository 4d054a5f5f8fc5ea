-- The chores that are due. Asked once per round and host; turn.sql then decides which host runs each of them.
-- Takes    $1 chores, $2 their intervals in seconds, $3 the same for those whose last run left something.
-- Returns  their names.
select t.name
from unnest($1::text[], $2::float8[], $3::float8[]) with ordinality as t (name, seconds, seconds_if_more, n)
left join holdfast.chores c on c.name = t.name
where c.ran_at is null
   or c.ran_at > holdfast.clock()
   or c.ran_at <= holdfast.clock()
                  - make_interval(secs => case when c.result @> '{"more": true}' then t.seconds_if_more else t.seconds end)
