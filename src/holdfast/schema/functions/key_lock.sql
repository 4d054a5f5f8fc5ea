-- The lock of whoever decides about a key.
create or replace function holdfast.key_lock(queue text, key text) returns bigint
    language sql immutable parallel safe
    return hashtextextended(key, hashtextextended('holdfast.key.' || queue, 0));
