-- Where to listen; and the server ends this session if it says nothing for so long.
-- Takes    $1 time, such as 60000ms.
-- Returns  the channel.
select holdfast.channel() as channel, set_config('idle_session_timeout', $1, false)
