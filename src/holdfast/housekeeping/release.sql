-- Make parked heads pending again: see holdfast.release_heads in 0003_order.sql.
-- Takes    $1 queues, $2 keys.
-- Returns  how many.
select holdfast.release_heads($1::text[], $2::text[])
