-- The channel of this installation. Payloads: see wake.sql; also '!' if the registry has changed, and '?' and a token if a
-- listener notifies itself, to check that notifications arrive.
create or replace function holdfast.channel() returns text
    language sql immutable parallel safe
    return replace('holdfast.wake', '"', '');
