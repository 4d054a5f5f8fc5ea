-- Make blocked heads pending again: see schema/functions/unblock_heads.sql.
-- Takes    $1 queues, $2 keys.
-- Returns  how many.
select holdfast.unblock_heads($1::text[], $2::text[])
