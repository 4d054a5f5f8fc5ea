-- The key of ordered deliveries to an endpoint: its id and the event's key, or its hash if both are too long together.
create or replace function holdfast.endpoint_key(endpoint uuid, key text) returns text
    language sql immutable parallel safe
    return endpoint::text || ':' || case when octet_length(key) <= 475 then key
                                         else encode(sha256(convert_to(key, 'UTF8')), 'hex') end;
