-- How the inbox is read: by its indexes, or from end to end
-- Sequential scans that grow while workers claim: an index is missing (holdfast doctor indexes) or the table was never
-- analysed.
select 'from end to end' as way, seq_scan as scans, seq_tup_read as entries from pg_stat_all_tables
where schemaname = (parse_ident('holdfast.inbox'))[1] and relname = 'inbox'
union all
select indexrelname, idx_scan, idx_tup_read from pg_stat_all_indexes
where schemaname = (parse_ident('holdfast.inbox'))[1] and relname = 'inbox'
order by scans desc
