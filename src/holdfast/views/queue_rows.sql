-- The queues that have a row of their own: since when each is paused, and how its jobs run.
select q.name as queue, q.paused_at,
       case when q.ordered then case when q.skips then 'ordered, skips' else 'ordered' end || case when q.owned then ', owned' else '' end
            when q.owned then 'owned' else 'free' end as mode
from holdfast.queues q
