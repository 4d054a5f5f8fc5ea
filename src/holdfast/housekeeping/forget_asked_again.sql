-- Forget the marks of jobs that were asked for again a day ago: no first try is that late.
-- Takes    $1 batch size.
-- Locks    the rows, skipping what is locked.
-- Index    none: the table holds a row for each answer that was lost within a day.
delete from holdfast.asked_again a
where a.id = any (array(
    select m.id
    from holdfast.asked_again m
    where m.at < holdfast.clock() - interval '1 day'
    limit $1
    for update skip locked
))
returning a.id
