-- The indexes of the tables of the installation, without those of partitions.
-- Takes    $1 schema.
-- Returns  name, table, definition (as in the default schema), whether it is valid.
select i.relname::text as name, t.relname::text as table_name,
       replace(replace(pg_get_indexdef(x.indexrelid), quote_ident($1::text) || '.', 'holdfast' || '.'), ' ONLY ', ' ') as definition,
       x.indisvalid and x.indisready as valid
from pg_index x
join pg_class i on i.oid = x.indexrelid
join pg_class t on t.oid = x.indrelid
where t.relnamespace = (select n.oid from pg_namespace n where n.nspname = $1::text)
  and not t.relispartition
order by 1
