-- Take a consumer, or keep it.
-- Takes    $1 name, $2 worker, $3 seconds.
-- Returns  the generation; nothing if another worker has it.
insert into holdfast.consumers as c (name, holder, expires_at)
values ($1, $2, holdfast.clock() + make_interval(secs => $3::float8))
on conflict (name) do update
set generation = c.generation + (c.holder <> excluded.holder)::int,
    since = case when c.holder = excluded.holder then c.since else holdfast.clock() end,
    holder = excluded.holder,
    expires_at = excluded.expires_at
where c.holder = excluded.holder
   or c.expires_at <= holdfast.clock()
   or exists (select from holdfast.workers w where w.id = c.holder and w.status = 'dead')
returning c.generation
