-- Register a worker, before its first claim.
-- Takes    $1 worker, $2 metadata.
insert into holdfast.workers (id, status, last_seen_at, started_at, metadata)
values ($1, 'alive', holdfast.clock(), holdfast.clock(), $2::text::jsonb)
on conflict (id) do update set last_seen_at = excluded.last_seen_at, metadata = excluded.metadata
