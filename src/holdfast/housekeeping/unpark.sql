-- Make parked heads pending again: see schema/functions/unpark_heads.sql.
-- Takes    $1 queues, $2 keys.
-- Returns  how many.
select holdfast.unpark_heads($1::text[], $2::text[])
