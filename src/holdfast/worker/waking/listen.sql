-- The channel to listen on. Also lets the server end this session after so long without a call.
-- Takes    $1 a time, such as 60000ms.
-- Returns  the channel.
select holdfast.channel() as channel, set_config('idle_session_timeout', $1, false)
