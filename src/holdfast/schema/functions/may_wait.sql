-- Reject an ordered job that is due later: it would hold up its key until then. Called for ordered jobs only.
create or replace function holdfast.may_wait(queue text, skips boolean, available_at timestamptz) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
begin
    if not skips and available_at > clock_timestamp() + interval '1 second' then
        raise exception 'delay, at: an ordered job of queue % that is due later would hold up its key until then', queue
            using errcode = 'HF001',
                  hint = 'Enqueue it when it is due, or let waiting jobs be skipped (on_failure "skip").';
    end if;
    return true;
end
$$;
