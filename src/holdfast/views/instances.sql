-- Live workflow instances, in order of their jobs' ids: to replay them against other code. Also those that have not begun: other
-- code may not know their version, or not take their arguments.
-- Takes    $1 kinds that the code has, $2 applications that it is, $3 id: those after it, $4 most rows.
-- Returns  what the code needs: id, kind, version, payload, instance id, queue, key, generation; and whether the kind is one of $1.
-- Index    the primary key, from the id on.
select i.id, i.kind, i.payload_version as version, i.payload::text as payload, i.idempotency_key, i.queue, i.partition_key as key,
       i.lease_generation as generation, i.kind = any ($1::text[]) as known
from holdfast.inbox i
left join holdfast.kinds k on k.kind = i.kind
where i.id > $3::uuid
  and (i.kind = any ($1::text[]) or (k.workflow and k.app = any ($2::text[])))
order by i.id
limit $4::int
