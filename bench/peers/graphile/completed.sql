-- Graphile Worker keeps no completed job: nothing can be said of them.
select null::bigint, null::float8[]
