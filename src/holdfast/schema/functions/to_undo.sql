-- Must this instance, whose attempt has failed, be undone in the next one? It was cancelled during this attempt, which may not
-- have heard of it, and it is not being undone yet. True for one attempt only, because cancel_jobs writes down which: an
-- instance that cannot be undone becomes a dead letter like any other.
-- Index    the primary key of steps.
create or replace function holdfast.to_undo(job uuid, headers jsonb, generation bigint) returns boolean
    language sql stable parallel safe
    return case when headers ->> 'holdfast.cancelled' = generation::text
                then not exists (select from holdfast.steps s where s.job_id = any (array[job]) and s.name = 'undo:' and s.n = 0)
                else false end;
