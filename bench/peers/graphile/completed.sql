-- It keeps none.
select null::bigint
