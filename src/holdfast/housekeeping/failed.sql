-- Note that a chore failed: its turn is used, and the next one starts where this one did, with its floor and its mark.
-- Takes    $1 chore, $2 error, $3 the seconds after which it should have run again.
insert into holdfast.chores as c (name, ran_at, result)
values ($1, holdfast.clock(), pg_catalog.jsonb_build_object('rows', 0, 'more', false, 'every', $3::float8, 'error', $2::text))
on conflict (name) do update
set ran_at = excluded.ran_at,
    result = excluded.result || pg_catalog.jsonb_build_object('mark', c.result ->> 'mark'::text)
