-- Pause a queue: claims skip it from now on; running jobs finish.
-- Takes    $1 queue.
insert into holdfast.queues (name, paused_at)
values ($1, holdfast.clock())
on conflict (name) do update set paused_at = coalesce(queues.paused_at, excluded.paused_at)
