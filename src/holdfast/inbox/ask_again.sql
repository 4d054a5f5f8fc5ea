-- Say that a job is asked for again, since the first try got no answer: from now on that try can only fail.
-- Takes    $1 id.
-- Commit it before the repetition begins: see holdfast.in_time().
insert into holdfast.asked_again (id, at)
values ($1::text::uuid, holdfast.clock())
on conflict do nothing
