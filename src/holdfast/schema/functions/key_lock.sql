-- The lock of a key, under which every decision about it is made.
create or replace function holdfast.key_lock(queue text, key text) returns bigint
    language sql immutable parallel safe
    return hashtextextended(key, hashtextextended('holdfast.key.' || queue, 0));
