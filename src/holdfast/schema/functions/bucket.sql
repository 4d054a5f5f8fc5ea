-- The bucket of a key: the first ten bits of sha256 over its UTF-8 bytes. docs/sql.md publishes test vectors.
create or replace function holdfast.bucket(key text) returns int
    language sql immutable strict parallel safe
    return (get_byte(sha256(convert_to(key, 'UTF8')), 0) << 2) | (get_byte(sha256(convert_to(key, 'UTF8')), 1) >> 6);
