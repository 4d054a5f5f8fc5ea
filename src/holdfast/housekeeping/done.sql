-- Note that a chore ran.
-- Takes    $1 chore, $2 floor for the next run (null: none), $3 rows that this run handled, $4 is something left?, $5 the
--          seconds after which it should have run again, $6 its mark (null: none).
-- Returns  when.
insert into holdfast.chores (name, ran_at, floor, result)
values ($1, holdfast.clock(), $2,
        pg_catalog.jsonb_build_object('rows', $3::int, 'more', $4::boolean, 'every', $5::float8, 'mark', $6::text))
on conflict (name) do update set ran_at = excluded.ran_at, floor = excluded.floor, result = excluded.result
returning ran_at
