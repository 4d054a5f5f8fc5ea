-- The lock under which the row of an instance is first inserted, so that parking need not wait for an open transaction that
-- inserts it.
create or replace function holdfast.instance_lock(job uuid) returns bigint
    language sql immutable parallel safe
    return hashtextextended(job::text, hashtextextended('holdfast.instance', 0));
