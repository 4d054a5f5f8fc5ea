-- The oldest due suspect of these queues.
-- Index    idx_inbox_suspect.
create or replace function holdfast.suspect(queues text[], paused text[], kinds text[], versions jsonb)
    returns holdfast.candidate[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
begin
    return array(
        select row(i.id, 0, i.available_at, i.seq, i.queue, i.partition_key, i.ordered)::holdfast.candidate
        from holdfast.inbox i
        where i.status = 'pending'
          and i.crashes > 0
          and i.available_at <= holdfast.clock()
          and i.queue = any (queues)
          and i.queue <> all (paused)
          and holdfast.knows(kinds, versions, i.kind, i.payload_version)
          and i.attempts < i.max_attempts
        order by i.available_at, i.seq
        limit 1
    );
end
$$;
