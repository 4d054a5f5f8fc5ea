-- What the archive keeps of an instance: its steps, with those given in place of stored ones, and the signals that nothing
-- has taken. As in workflow/end.sql, which has it in line: a call per row costs more.
-- Takes    the job; the given steps, as JSON objects with commas between them.
-- Index    primary keys alone.
create or replace function holdfast.folded(job uuid, given text default '') returns jsonb
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- on an application's connection, planned while the table is empty
    as $$
begin
    return concat(
        '{"steps":[', concat_ws(',', (
            select string_agg(holdfast.kept_step(s), ',' order by s.ordinal)
            from holdfast.steps s
            where s.job_id = job
              -- Of a step that is given, only its beginning can be stored: what has ended does not change.
              and not (s.status = 'open' and concat('[', given, ']')::jsonb
                                             @> jsonb_build_array(jsonb_build_object('name', s.name, 'n', s.n)))),
            nullif(given, '')),
        '],"signals":', coalesce((
            select jsonb_agg(jsonb_build_object(
                       'n', g.n, 'name', g.name, 'payload', g.payload, 'signal_id', g.signal_id, 'sent_at', g.sent_at)
                   order by g.n)::text
            from holdfast.signals g
            where g.job_id = job and g.taken_by is null
              and not concat('[', given, ']')::jsonb @> jsonb_build_array(jsonb_build_object('signal', g.n))),
            '[]'), '}')::jsonb;
end
$$;
