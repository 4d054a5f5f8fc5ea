-- A new id: its first 48 bits are the time in milliseconds. From PostgreSQL 18 on, the server has this function.
do $do$
begin
    if current_setting('server_version_num')::int >= 180000 then
        create or replace function holdfast.uuidv7() returns uuid
            language sql volatile parallel safe
            return pg_catalog.uuidv7();
    else
        create or replace function holdfast.uuidv7() returns uuid
            language sql volatile parallel safe
            return encode(
                set_byte(
                    overlay(
                        uuid_send(gen_random_uuid())
                        placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
                        from 1 for 6),
                    6, (get_byte(uuid_send(gen_random_uuid()), 0) & 15) | 112),
                'hex')::uuid;
    end if;
end
$do$;
