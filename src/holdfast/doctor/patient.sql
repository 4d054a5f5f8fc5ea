-- Who looks, and what it may see.
select current_user::text as role, pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_all, pg_backend_pid() as pid
