-- In what a job differs from one that was asked for under the same key or id; null: in nothing.
create or replace function holdfast.difference(kind text, payload jsonb, asked_kind text, asked_payload jsonb) returns text
    language sql immutable parallel safe
    return case when kind is distinct from asked_kind then format('kind %s', kind)
                when payload <> asked_payload then 'another payload' end;
