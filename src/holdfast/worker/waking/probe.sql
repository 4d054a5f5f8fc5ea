-- Notify the session that asks, to try its ears.
-- Takes    $1 token.
select pg_notify(holdfast.channel(), '?' || $1)
