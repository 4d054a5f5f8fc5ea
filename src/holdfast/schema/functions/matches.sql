-- Is this type one of these patterns? A pattern is a type, or the beginning of types and a star: 'order.*', '*'.
create or replace function holdfast.matches(type text, patterns text[]) returns boolean
    language sql immutable parallel safe
    return exists (
        select from unnest(patterns) as p (pattern)
        where p.pattern = type or (right(p.pattern, 1) = '*' and starts_with(type, left(p.pattern, -1))));
