-- May we make a schema here?
select pg_catalog.has_database_privilege(current_database(), 'create') as may, current_user::text as role, current_database()::text as name
