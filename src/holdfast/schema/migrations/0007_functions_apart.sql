-- From here on, functions are not part of migrations: schema/functions/ has the current body of each, and the runner
-- installs those that have changed, with the last migration.

-- Which body of each function is installed.
create table holdfast.functions (
    name   text collate "C" primary key,
    digest text not null
);

-- The oldest schema version whose workers also run on this one; null: only workers of this version. Read by releases that
-- do not know this version.
alter table holdfast.migrations add column oldest int;

-- Functions and statements are written so that the server's own operators match exactly, whatever is on a caller's
-- search_path. The server has no operator of its own for this type, so other roles must not create one.
revoke usage on type holdfast.inbox_status from public;
