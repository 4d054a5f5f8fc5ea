-- Notify ourselves, to check that notifications arrive.
-- Takes    $1 token.
select pg_notify(holdfast.channel(), '?' || $1)
