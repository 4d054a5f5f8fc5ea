-- The lock that is the flag "a worker is asleep (or awake) on this queue".
create or replace function holdfast.flag(state text, queue text) returns bigint
    language sql immutable parallel safe
    return hashtextextended('holdfast.' || state || ' ' || queue, 0);
