-- Give an endpoint a new secret. The newest one before it stays valid for a while: both sign.
-- Takes    $1 endpoint, $2 the new secret, $3 seconds for which the old one stays valid, $4 also if one is being replaced now?,
--          $5 who does it.
-- Returns  did it change, and when the old secret expires; nothing when there is no such endpoint.
-- Locks    the endpoint. A call that is repeated finds its secret, and changes nothing.
with found as materialized (
    select e.id, e.secrets, e.secrets -> 0 ->> 'secret'::text = $2::text as repeated,
           exists (select from pg_catalog.jsonb_array_elements(e.secrets) as s (secret)
                   where (s.secret ->> 'expires_at'::text)::timestamptz > holdfast.clock()) as rotating
    from holdfast.endpoints e
    where e.id = $1
    for update
),
changed as (
    update holdfast.endpoints e
    set secrets = pg_catalog.jsonb_build_array(
            pg_catalog.jsonb_build_object('secret', $2::text, 'created_at', holdfast.clock()),
            (f.secrets -> 0) || pg_catalog.jsonb_build_object(
                'expires_at', holdfast.clock() + make_interval(secs => $3::float8)))
    from found f
    where e.id = f.id and not f.repeated and ($4::boolean or not f.rotating)
    returning e.id
),
noted as (
    insert into holdfast.journal (at, what, subject, actor)
    select holdfast.clock(), 'endpoint.rotated', c.id::text, $5::text from changed c
)
select f.repeated or c.id is not null as changed, holdfast.clock() + make_interval(secs => $3::float8) as expires_at
from found f
left join changed c on true
