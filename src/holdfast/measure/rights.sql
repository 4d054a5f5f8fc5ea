-- Whether this role may create a schema in this database.
select pg_catalog.has_database_privilege(current_database(), 'create') as may, current_user::text as role, current_database()::text as name
