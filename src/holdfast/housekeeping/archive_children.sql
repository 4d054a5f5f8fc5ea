-- As archive.sql, of rows that instances wait for: their parents are told. See schema/functions/archive_children.sql.
-- Takes    $1 batch, $2 the last id of the previous batch.
-- Returns  how many, and the last id if there may be more.
-- Locks    the rows, in order of id, and their parents, skipping locked ones.
-- Index    idx_inbox_finished.
select a.rows, a.last from holdfast.archive_children($1::int, $2::uuid) a
