-- Discard dead letters: each moves to the archive as discarded, with its errors.
-- Takes    $1 ids, $2 who does it.
-- Returns  the ids discarded.
-- Locks, index: see holdfast.discard.
select d.id from holdfast.discard($1::uuid[], $2::text) as d (id)
