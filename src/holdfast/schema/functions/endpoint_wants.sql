-- Does an endpoint with these patterns want an event of this type? Holdfast's own events, such as holdfast.endpoint.disabled,
-- are for operators, and name the URLs of other customers: a pattern must ask for them by its first word. '*' does not.
create or replace function holdfast.endpoint_wants(type text, patterns text[]) returns boolean
    language sql immutable parallel safe
    return holdfast.matches(type, case when starts_with(type, 'holdfast.')
                                       then array(select p.pattern from unnest(patterns) as p (pattern)
                                                  where starts_with(p.pattern, 'holdfast.'))
                                       else patterns end);
