-- The channel of this installation. Payloads: ':' and a queue, when work came; '!' when the registry of workers has
-- news for them; '?' and a token when a listener tries its own ears.
create or replace function holdfast.channel() returns text
    language sql immutable parallel safe
    return replace('holdfast.wake', '"', '');
