-- The only clock. Not now(), which a long transaction freezes; not clock_timestamp(), which is volatile and so cannot
-- bound an index scan. A single SQL expression, so that the planner inlines it; tests replace it.
create or replace function holdfast.clock() returns timestamptz
    language sql stable parallel safe
    return statement_timestamp();
