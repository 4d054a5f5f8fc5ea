-- The id of a delivery: always the same for an event, where it goes and which replay it is (0: none), so that no delivery is
-- made twice. It begins as the event's id does, which has the time: neighbours in time are neighbours in the index.
create or replace function holdfast.delivery_id(event uuid, destination text, replay int) returns uuid
    language sql immutable parallel safe
    return (left(replace(event::text, '-', ''), 13)
            || left(encode(sha256(convert_to(event::text || '/' || replay::text || '/' || destination, 'UTF8')), 'hex'), 3)
            || substr(replace(event::text, '-', ''), 17, 1)
            || substr(encode(sha256(convert_to(event::text || '/' || replay::text || '/' || destination, 'UTF8')), 'hex'), 4, 15))::uuid;
