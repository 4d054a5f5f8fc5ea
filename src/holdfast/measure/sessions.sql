-- What the worker's sessions are doing now: computing, or waiting for a commit, the disk, a lock, or the worker's next
-- statement.
-- Takes    $1 their application names; $2 a pattern of their statements, for sessions behind a pooler (otherwise null).
-- Returns  a word for each.
select case when a.state <> 'active' or a.wait_event_type = 'Client' then 'idle'
            when lower(a.wait_event) in ('walsync', 'walwrite', 'walinitsync', 'walinitwrite', 'syncrep', 'commitdelay') then 'commit'
            when a.wait_event_type = 'IO' then 'disk'
            when a.wait_event_type in ('Lock', 'LWLock', 'BufferPin') then 'lock'
            else 'cpu' end as doing
from pg_stat_activity a
where a.datname = current_database()
  and a.pid <> pg_backend_pid()
  and (a.application_name = any ($1::text[])
       or a.application_name = 'holdfast' and (a.query like $2::text or $2 is not null and a.query = 'commit' and a.state = 'active'))
