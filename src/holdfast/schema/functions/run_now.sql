-- Make pending jobs due now that wait for their time or their retry, and wake workers.
-- Takes    ids, in any order; who does it (null: holdfast.actor() says it).
-- Returns  the ids of those that were waiting.
-- Locks    the rows, in order of id; waits for transactions that hold them.
-- Index    the primary key alone (see complete.sql).
-- The lock draws the xid before the clock is read, as the claim floor needs it (see enqueue.sql).
drop function if exists holdfast.run_now(uuid[]);          -- as it was up to version 23
create or replace function holdfast.run_now(ids uuid[], actor text default null) returns setof uuid
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- on an application's connection, planned while the inbox is empty
    as $$
declare
    due    uuid[];
    queues text[];
    kinds  text[];
begin
    with waiting as materialized (
        select i.id
        from (select distinct u.id from unnest(ids) as u (id)) w
        join holdfast.inbox i on i.id = any (array[w.id])
        where i.status::text = 'pending' and i.available_at > holdfast.clock()
        order by w.id
        for update of i
    ),
    made as (
        update holdfast.inbox i
        set available_at = clock_timestamp()
        from waiting
        where i.id = any (array[waiting.id])
        returning i.id, i.queue, i.kind
    )
    select array_agg(m.id), array_agg(m.queue), array_agg(m.kind) into due, queues, kinds from made m;
    perform holdfast.wake(q.queue, null, null, count(*)::int) from unnest(queues) as q (queue) group by q.queue;
    perform holdfast.note_jobs('jobs.run_now', due, queues, kinds, actor);
    return query select u.id from unnest(due) as u (id);
end
$$;
