-- The job that waits for this one, by its headers; null: none does.
create or replace function holdfast.parent_of(headers jsonb) returns uuid
    language sql immutable parallel safe
    return case when headers ->> 'holdfast.parent' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                then (headers ->> 'holdfast.parent')::uuid end;
