-- From here on functions are no history: the current body of each stands in schema/functions/, and the runner installs
-- those that have changed, with the last migration.

-- Which body of each function is installed.
create table holdfast.functions (
    name   text collate "C" primary key,
    digest text not null
);

-- The oldest schema version whose workers run on this one, too; null: only those of this version. Read by releases that do
-- not know this version.
alter table holdfast.migrations add column oldest int;

-- Functions and statements are written so that the server's own operators match exactly, whatever stands on a caller's
-- search_path. It has none for this type alone: nobody else may make one.
revoke usage on type holdfast.inbox_status from public;
