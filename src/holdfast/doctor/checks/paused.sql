-- Queues that are paused while jobs of theirs are due.
-- Index    idx_inbox_claim, idx_inbox_ordered_claim.
select q.name, extract(epoch from holdfast.clock() - q.paused_at)::float8 as seconds
from holdfast.queues q
where q.paused_at is not null
  and (exists (select from holdfast.inbox i
               where i.status = 'pending' and not i.ordered and not i.owned and i.queue = q.name and i.available_at <= holdfast.clock())
       or exists (select from holdfast.inbox i
                  where i.status = 'pending' and i.ordered and not i.owned and i.queue = q.name and i.available_at <= holdfast.clock())
       or exists (select from holdfast.inbox i
                  where i.status = 'pending' and i.owned and i.queue = q.name and i.available_at <= holdfast.clock()))
order by q.paused_at
