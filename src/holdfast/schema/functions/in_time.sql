-- Is a first try in time? Raises if it is not, so that nothing comes of it. To be called after the insert of the job, in
-- the same statement, in READ COMMITTED.
--
-- It looks with a snapshot taken now. Either the mark had been committed by then: it raises. Or it had not: then the job's
-- row was inserted before the mark was committed, and so before the repetition began. The repetition meets it in the
-- primary key, and waits for its end if need be, or finds it in the archive, where it looks after an insert of its own.
-- (No search_path of its own: see "wake".)
create or replace function holdfast.in_time(job uuid) returns boolean
    language plpgsql volatile
    as $$
begin
    perform from holdfast.asked_again a where a.id = job;
    if found then
        raise exception 'job % has been asked for again: this first try came late', job using errcode = 'HF003';
    end if;
    return true;
end
$$;
