-- A step as the archive keeps it, as JSON: without what is null, except its result. A single SQL expression, so that the
-- planner inlines it. As text, which is parsed once with all the rest: jsonb_build_object looks up the type of each of its
-- arguments, which took half of the time of an ending.
create or replace function holdfast.kept_step(s holdfast.steps) returns text
    language sql stable parallel safe
    return concat(
        '{"name":', to_json(s.name), ',"n":', s.n, ',"ordinal":', s.ordinal, ',"kind":"', s.kind, '","status":"', s.status,
        '"', ',"errors":' || s.errors::text, ',"attempts":', s.attempts,
        ',"digest":' || s.digest::text, ',"wake_at":' || to_json(s.wake_at)::text, ',"child_id":"' || s.child_id::text || '"',
        ',"generation":', s.generation, ',"started_at":', to_json(s.started_at), ',"ended_at":' || to_json(s.ended_at)::text,
        ',"result":', coalesce(s.result::text, 'null'), '}');
