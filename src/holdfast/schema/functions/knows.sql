-- Can a worker run this kind in this payload version? It sends the kinds that it knows, and {kind: [oldest, newest]}
-- for those with others than version 1. Inlined into the claim.
create or replace function holdfast.knows(kinds text[], versions jsonb, kind text, version int) returns boolean
    language sql immutable parallel safe
    return kind = any (kinds)
           and case when versions ? kind
                    then version between (versions -> kind ->> 0)::int and (versions -> kind ->> 1)::int
                    else version = 1 end;
