-- The details of two notes as those of one: numbers are added; of anything else, the newer one stays.
create or replace function holdfast.add_details(older jsonb, newer jsonb) returns jsonb
    language sql immutable parallel safe
    return older || newer || coalesce((
        select jsonb_object_agg(n.key, (n.value #>> '{}')::numeric + (older ->> n.key)::numeric)
        from jsonb_each(newer) as n (key, value)
        where jsonb_typeof(n.value) = 'number' and jsonb_typeof(older -> n.key) = 'number'), '{}');
