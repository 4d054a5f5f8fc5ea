-- For producers of releases up to 0.1, whose jobs must not be rejected while they are being replaced: one set of terms
-- for all, and one parameter for each.
create or replace function holdfast.enqueue_each(
    ids uuid[], keys text[], payloads jsonb[], idempotency_keys text[], kind text, queue text, priority int,
    available_at timestamptz, max_attempts int, payload_version int, headers jsonb, ordered boolean, skips boolean
) returns table (n int, job_id uuid, existed boolean, conflict text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_variable
declare
    terms holdfast.terms;                                    -- by name: it may get attributes that these releases do not know
begin
    terms.kind := kind;
    terms.queue := queue;
    terms.priority := priority;
    terms.at := available_at;
    terms.max_attempts := max_attempts;
    terms.version := payload_version;
    terms.headers := headers;
    terms.ordered := ordered;
    terms.skips := skips;
    return query
        select a.n, a.job_id, a.existed, a.conflict
        from holdfast.enqueue_all(
            ids, keys, payloads, idempotency_keys, array_fill(1, array[cardinality(ids)]),
            array[terms]) a;
end
$$;
