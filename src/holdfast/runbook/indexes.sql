-- The indexes of the inbox, and how often each was read
-- holdfast doctor indexes compares them with those that the migrations made, and says how to make a missing one again.
select i.indexrelname as index_name, x.indisvalid as valid, i.idx_scan as scans, pg_size_pretty(pg_relation_size(i.indexrelid)) as size
from pg_stat_all_indexes i
join pg_index x on x.indexrelid = i.indexrelid
where i.schemaname = (parse_ident('holdfast.inbox'))[1] and i.relname = 'inbox'
order by i.indexrelname
